"""Skills and slash commands of a session: which may be used, and what it means to call one."""
