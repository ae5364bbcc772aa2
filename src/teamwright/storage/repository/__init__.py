"""What the files of a git repository say: configuration, directories, index, and what could run something."""
