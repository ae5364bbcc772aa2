"""The tool that reads skills."""
