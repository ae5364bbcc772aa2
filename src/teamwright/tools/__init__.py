"""The tools: one a file, what the model is told of it in the `.md` beside it.

Knows `agent` (the contract) and `teams` (for the tools of a team). Does not know a screen.
"""
