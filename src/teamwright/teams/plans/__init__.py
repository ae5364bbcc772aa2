"""Plans of members: handed in, answered once, and told of in plain words."""
