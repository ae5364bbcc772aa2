"""The way back: contents of files by their hash beside the session, and a journal of who changed what.

`<history>/<sha256>` holds one content; `<history>/edits.jsonl` one line a change, with the keys `at member path
before after call` (`before` null for a new file). A content and its line are there before the file is changed, so
a line whose change never happened is possible and harmless: the file still has `before`.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from teamwright.agent.tool import ToolContext
from teamwright.protocol.clock import iso
from teamwright.storage.atomic import write_new
from teamwright.storage.paths import make_private

JOURNAL = "edits.jsonl"


def digest(content: bytes) -> str:
    """The name of a content: its SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def keep(history: Path, content: bytes) -> str:
    """Store a content unless it is there; returns its name. Raises StorageError."""
    name = digest(content)
    if not (history / name).exists():
        make_private(history)
        write_new(history / name, content)
    return name


def kept(history: Path, name: str) -> bytes | None:
    """The content of this name, or None."""
    try:
        return (history / name).read_bytes()
    except OSError:
        return None


def record(ctx: ToolContext, path: Path, before: bytes | None, after: bytes) -> None:
    """Store both contents and append the line. Raises OSError (StorageError for contents)."""
    history = ctx.workplace.history
    line = {
        "at": iso(),
        "member": ctx.member,
        "path": str(path),
        "before": None if before is None else keep(history, before),
        "after": keep(history, after),
        "call": ctx.call,
    }
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
    fd = os.open(history / JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Several members' processes append: each line begins with a newline too, so a torn one spoils only itself.
        os.write(fd, b"\n" + text + b"\n")
    finally:
        os.close(fd)
