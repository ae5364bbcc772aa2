"""The terminal of one member process."""
