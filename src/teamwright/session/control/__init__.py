"""Control of a running team: everything that a person or a program can do to its agents, for every caller."""
