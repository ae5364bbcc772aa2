"""Processes of the operating system: process groups, records of started commands, IPC and git."""
