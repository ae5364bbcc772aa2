"""Worktrees of members and the queue that integrates their branches.

Depends on git's command line and on storage. Leaves agents, teams and permissions to the packages above.
"""
