"""Saved sessions and teams: found by name, and changed by commands of a person from another process."""
