"""The interactive session at a terminal."""
