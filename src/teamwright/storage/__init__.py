"""Bytes: paths, atomic writes, locks, JSON lines, inbox arrays, watching, doorbells, the event log, processes.

Knows `protocol`. Does not know what a task, a member or a model is.
"""
