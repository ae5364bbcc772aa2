"""The Python library: a team as a context manager, runs that can be awaited and watched, typed results.

Depends on sessions. Public names are those of `teamwright.__all__`.
"""
