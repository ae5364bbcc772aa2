"""A session: one lead, its team and its log. Opening, running, controlling, resuming and removing sessions.

Depends on all packages below. Leaves screens and the Python library to the packages above.
"""
