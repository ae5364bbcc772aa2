"""Runs without a terminal: text, JSON and stream-JSON output, and reports."""
