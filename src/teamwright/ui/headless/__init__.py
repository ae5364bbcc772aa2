"""Runs without a person: text, json, stream-json, reports."""
