"""The interactive session on a terminal."""
