"""Trust: which entries of a repository a person has allowed to take effect."""
