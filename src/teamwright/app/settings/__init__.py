"""Settings: the table of keys, files that hold them, and which of several values holds."""
