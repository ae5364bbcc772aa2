"""Task checks: which commands may be run as one, and running them. Fills the port of `tasks`."""
