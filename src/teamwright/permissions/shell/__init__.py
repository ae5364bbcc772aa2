"""Shell lines: every command in a line at any depth, and the files that it redirects. Nothing is run."""
