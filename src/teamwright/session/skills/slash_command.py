"""Parser of slash commands: `/name arguments`."""

from __future__ import annotations

import re

_CALL = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?:\s+(.*))?", re.DOTALL)


def parse_slash_command(text: str) -> tuple[str, str] | None:
    """Return the name and the arguments of a slash command; None for other texts, such as a path."""
    found = _CALL.fullmatch(text.strip())
    return (found[1], (found[2] or "").strip()) if found is not None else None
