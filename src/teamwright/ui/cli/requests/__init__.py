"""Requests on the command line: what waits for a person, and how another terminal answers it."""
