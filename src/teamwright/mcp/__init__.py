"""Servers of the Model Context Protocol: started when first used, one process a session, shared by all agents.

Knows `storage` and `protocol`. Does not know what a tool of ours is, who calls, or whether the call is allowed.
"""
