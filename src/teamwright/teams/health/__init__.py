"""Health: what the events add up to, and the one table of states that all surfaces show."""
