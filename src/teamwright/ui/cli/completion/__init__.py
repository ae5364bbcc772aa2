"""Shell completion: a script for each shell, and the words it suggests."""
