"""Budgets: caps that are checked before each model call, and the usage of each agent, task and model."""
