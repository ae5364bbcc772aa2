"""The shell that the commands of a session run in."""
