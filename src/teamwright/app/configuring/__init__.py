"""Settings as a person handles them: looked at with the file of each, changed in one of one's own, described."""
