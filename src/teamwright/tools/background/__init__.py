"""Tools for what runs in the background: reading it, stopping it."""
