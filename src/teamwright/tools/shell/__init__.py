"""The shell tool."""
