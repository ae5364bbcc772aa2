"""Models: one interface, the formats of the vendors, rate limits, prices and the scripted model.

Depends on storage and protocol. Leaves budgets and agents to higher packages.
"""
