"""Shell lines: all commands of a line at any depth, and the files of its redirections. No command runs."""
