"""Hooks: commands of the user that run at an event and may refuse, change or extend it.

Reads definitions, runs commands and joins their answers. Higher packages decide when an event
happens.
"""
