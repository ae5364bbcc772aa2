"""Models: one interface, the vendors' formats behind it, rate limits, prices and the scripted model.

Depends on storage and protocol. Leaves budgets and agents to the packages above.
"""
