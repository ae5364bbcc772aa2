"""One agent: its loop, model calls, tool calls, conversation, transcript, prompt and background jobs.

Depends on the packages below. Leaves teams, concrete tools and user interfaces to the packages above.
"""
