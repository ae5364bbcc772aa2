"""A member as its team sees it, and what keeps one at work."""
