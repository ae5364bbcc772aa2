"""One agent: its loop, the contract of a tool, its history and transcript, its prefix, its sub-agents.

Knows `protocol`, `storage`, `models`, `permissions`, `mail`. Does not know any tool, any team or any screen.
"""
