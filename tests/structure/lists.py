"""Lists of exceptions that may only become shorter: one file, a list for each rule."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).parent / "exceptions.json"


def require_no_more(rule: str, found: Iterable[str]) -> None:
    """Check that a rule has no exception but the listed ones, and that each listed one is still there.

    Raises AssertionError that names what is new, or what has to leave the list.
    """
    listed = set(json.loads(FILE.read_text())[rule])
    new, gone = sorted(set(found) - listed), sorted(listed - set(found))
    assert not new, f"{rule}: new exceptions, fix them: {new}"
    assert not gone, f"{rule}: fixed, take them out of {FILE.name} (make house ARGS=--write): {gone}"


def write(lists: dict[str, list[str]]) -> None:
    """Write the lists. Refuses a list that would become longer. Raises SystemExit."""
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    for rule, found in lists.items():
        if rule in before and set(found) - set(before[rule]):
            raise SystemExit(f"{rule}: new exceptions, fix them: {sorted(set(found) - set(before[rule]))}")
    FILE.write_text(json.dumps(lists, indent=1) + "\n")
