"""Git: calls of our own that run no program of a repository, and repositories read without git."""
