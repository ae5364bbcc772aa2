"""The Bash tool: running a command, the user's shell and its snapshot."""
