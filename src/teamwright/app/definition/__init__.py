"""The team definition file of a repository: who may be in its teams, and what each may do."""
