"""A shell command as the list of everything it would run, at any depth, and every file it would redirect.

Read by `grammar`, confirmed by a second reader, walked by `walk`. What is certain to mean the same to bash is listed as
it is; everything else is a *doubt*, and a command in doubt is never proven harmless. Does not know rules or modes.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from teamwright.permissions.shell.parsed import Parsed
from teamwright.permissions.shell.walk import Walk

MAX_BYTES = 64 * 1024
"""A longer command is not read, only asked about."""


@lru_cache(maxsize=512)
def parse(text: str, cwd: Path) -> Parsed:
    """The command line, as run in this directory. Never raises; the result is shared and must not be changed."""
    parsed = Parsed()
    walk = Walk(parsed)
    if len(text) > MAX_BYTES:
        walk.unreadable("it is too long to be read")
        return parsed
    walk.text(text, frozenset({cwd}))
    if parsed.evaluates and parsed.holds_code:
        walk.unreadable("it has a text that is evaluated")
    return parsed
