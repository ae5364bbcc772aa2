"""Sub-agents: runs in the foreground and background, their notices, resume and stop."""
