"""What a typed line calls: `/name arguments`. Pure."""

from __future__ import annotations

import re

_CALL = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?:\s+(.*))?", re.DOTALL)


def parse_slash_command(text: str) -> tuple[str, str] | None:
    """The name and the arguments of a line that calls a command; None for other words, a path for one."""
    found = _CALL.fullmatch(text.strip())
    return (found[1], (found[2] or "").strip()) if found is not None else None
