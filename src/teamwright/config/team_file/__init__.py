"""The team file of a repository: roles, path ownership, caps and checks."""
