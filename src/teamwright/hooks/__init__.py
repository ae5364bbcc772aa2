"""Hooks: a user's own commands that run when something happens, and may refuse it, change it, or add to it.

Below it: `protocol` and `storage`. Does not know permissions, agents or teams: whoever fires a hook does.
"""
