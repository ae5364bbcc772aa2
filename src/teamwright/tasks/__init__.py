"""The shared task list: files, ids, the dependency graph and claims of which only one can succeed."""
