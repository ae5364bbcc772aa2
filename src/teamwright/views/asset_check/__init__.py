"""The check of all files that a run would read: used, ignored, waiting for trust, or damaged."""
