"""Read the files of a git repository: configuration, directories, index, and entries that could run a program."""
