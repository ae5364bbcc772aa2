"""Control of a running team: all actions of a person or a program on its agents, for every caller."""
