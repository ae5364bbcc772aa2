"""Construction of a session's parts: agents, toolsets, policies, models, hooks and request queue."""
