"""Changes of a running session: another model, and configuration that is read again."""
