"""The shared task list: files, ids that are never reused, the graph, claims that only one can win.

Knows `protocol` and `storage`. Sends no mail and runs no check: who is told, and whether work is really done,
is decided above.
"""
