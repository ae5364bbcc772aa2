"""Configuration: settings files, trust, agent types, plugins and the team file of a repository.

Reads and checks what people wrote. Leaves the running session to `session`.
"""
