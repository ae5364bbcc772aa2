"""Settings: the table of keys, the files that contain them, and which of several values is used."""
