"""Hooks: commands of the user that run at an event and may refuse, change or extend it.

Reads definitions, runs commands and joins their answers. Leaves the time of an event to the packages above.
"""
