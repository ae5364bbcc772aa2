"""The files of a git repository: configuration, directories and index, read without running git."""
