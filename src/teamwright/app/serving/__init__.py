"""MCP servers of a session: which there are by settings, files and flags, and who gets their tools."""
