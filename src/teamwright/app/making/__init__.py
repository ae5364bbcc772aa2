"""How agents are made: the three routes, the parts, and who may do what."""
