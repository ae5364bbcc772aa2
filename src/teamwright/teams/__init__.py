"""Many agents: the roster, the lifecycle table, the runner of a teammate, the team and its ending.

Knows `agent` and all below. Does not know any tool's code or any screen: tools are handed in by `app`.
"""
