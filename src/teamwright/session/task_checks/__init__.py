"""Task checks: commands that must pass before a task counts as completed."""
