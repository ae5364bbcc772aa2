"""Bytes on disk: paths, atomic writes, locks, JSON lines, JSON arrays, the event log, doorbells and watchers."""
