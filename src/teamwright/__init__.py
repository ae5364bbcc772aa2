"""Teamwright: teams of coding agents, as a Python library and a command line."""

__version__ = "0.1.0"
