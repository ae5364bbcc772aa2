"""A client of the Model Context Protocol: servers start at their first use, one process a session for all agents."""
