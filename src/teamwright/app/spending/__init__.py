"""Spending: budgets that hold before a call is made, and who used what, adding up to the token."""
