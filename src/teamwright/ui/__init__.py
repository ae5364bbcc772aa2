"""Faces: the command line, headless runs, the terminal, the demo. They see `app` and `protocol` only."""
