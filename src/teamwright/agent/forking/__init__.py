"""Forks: agents that go on from where another agent's conversation is, with a job of their own."""
