"""A client of the Model Context Protocol: servers start when first used, one process a session for all agents."""
