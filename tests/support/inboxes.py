"""Counts of the entries of an inbox, for tests."""

from pathlib import Path

from teamwright.mail.inbox import read_entries


def count_entries(path: Path) -> tuple[int, int]:
    """Return the number of unread entries, and of all entries."""
    entries = read_entries(path)
    return sum(not entry.read for entry in entries), len(entries)
