"""What people wrote down for agents: skills, slash commands, and what agents noted for themselves.

Parses and renders only: runs nothing, grants nothing, asks nobody. Below it are `protocol` and `storage`.
"""
