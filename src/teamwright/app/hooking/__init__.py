"""Hooks of a session: what settings name, given to every agent, and fired for what is nobody's call."""
