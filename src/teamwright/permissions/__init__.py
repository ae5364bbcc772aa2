"""Permissions: the verdict on a tool call, from rules, modes, directories and the commands in a shell line.

Verdicts are computed without side effects. Leaves the question to a person to `approvals`.
"""
