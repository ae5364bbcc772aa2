"""Tables of words, written as one text so that they can be read and compared at a glance. Knows nothing else."""

from __future__ import annotations


def table(text: str) -> frozenset[str]:
    """The words of a text, by blanks."""
    return frozenset(text.split())
