"""The audit of a team: what its files prove about messages, tasks, requests and processes."""
