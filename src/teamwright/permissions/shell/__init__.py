"""What a shell line would do: every command in it at any depth, and the files it redirects; parsed, never run."""
