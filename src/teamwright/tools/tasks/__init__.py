"""Tools of the shared task list."""
