"""Who may call a service now: what is known of its limits, kept for one process or for all that share a key.

`state` is the arithmetic, `board` where it is kept, `stagger` lets the first of several equal prompts go ahead.
"""
