"""`teamwright agents`: the kinds of agents that there are here."""
