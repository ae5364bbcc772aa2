"""The scripted model: its file format, templates and player."""
