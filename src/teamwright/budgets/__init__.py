"""Budgets: caps that hold before a model call is made, and the usage of each agent, task and model."""
