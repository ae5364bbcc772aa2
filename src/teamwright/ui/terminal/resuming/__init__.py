"""Going on with another session: the list to pick from, keys that pick, and what of this start carries over."""
