"""Servers on a user's own machine: what they tell of their models, and what to type to them."""
