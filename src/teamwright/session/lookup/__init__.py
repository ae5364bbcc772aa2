"""Lookup: the session, team or agent that a name means."""
