"""Models: one contract, and what speaks it.

Knows `protocol` (blocks, usage, errors). Does not know tools, teams or files of sessions: a request comes in as
bytes that are ready to send, and a stream of parts goes out.
"""
