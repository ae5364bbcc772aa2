"""Compaction of a session's agents: its ports filled, and how a person asks for one."""
