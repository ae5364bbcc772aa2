"""Permissions: what a call may do. Deciding is pure; asking goes through a port.

Knows `protocol`. Does not know a tool's code, an agent's loop or a screen: a call comes in as facts.
"""
