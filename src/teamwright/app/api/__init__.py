"""The Python API: a team that a program holds, a run that is both awaitable and watchable.

Built on a session; adds names that read well and nothing else. Public are the names of `teamwright.__all__`.
"""
