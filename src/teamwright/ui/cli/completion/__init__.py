"""What the Tab key of a shell offers: a script for each shell, and the words, from data and names on disk alone."""
