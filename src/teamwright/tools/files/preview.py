"""What a change of a file would be, for whoever is asked before it: the path and the whole diff.

Reads, writes nothing, and decides nothing: the change itself looks again. Knows the text of files.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.agent.tool import ToolResult
from teamwright.tools.files.change import Make
from teamwright.tools.files.replacing import MOST, open_regular, read_all
from teamwright.tools.files.text import decode, is_binary, shown, unified_diff


def preview_change(path: Path, make: Make) -> str:
    """The path, then the diff; or the path and why there is none to show."""
    try:
        before = _content(path)
    except OSError as problem:
        return f"{path}\n({problem.strerror or problem})"
    made = make(before)
    if isinstance(made, ToolResult):
        return f"{path}\n({made.brief})"
    if is_binary(before or b"") or is_binary(made.content):
        return f"{path}\n(not a text: {len(made.content):,} bytes)"
    diff = shown(unified_diff(path.name, decode(before or b"").text, decode(made.content).text))
    head = f"{path} (new file)" if before is None else str(path)
    return f"{head}\n{diff}".rstrip("\n")


def _content(path: Path) -> bytes | None:
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(fd).st_size > MOST:
            raise OSError("it is larger than 64 MB")
        return read_all(fd)
    finally:
        os.close(fd)
