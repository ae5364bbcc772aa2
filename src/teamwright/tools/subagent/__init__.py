"""Tools that start, continue, read and stop sub-agents and background commands."""
