"""Other processes of the same user act on a team while it runs: what they ask, and how its lead's process hears."""
