"""Trust: what a repository may have take effect, and who said so."""
