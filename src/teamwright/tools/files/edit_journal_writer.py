"""The edit journal: contents of files by their hash in the session's directory, and a journal of changes.

`<history>/<sha256>` holds one content; `<history>/edits.jsonl` one line a change, with the keys `at member path before
after call` (`before` null for a new file; then `made`, when directories were created with it). A content and its line
are written before the file is changed, so a line without a change is possible and harmless: the file still has
`before`. Other kinds of lines and the readers are in higher packages (docs/formats/history.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import iso_time
from teamwright.storage.files import storage_error, write_new
from teamwright.storage.paths import make_private

if TYPE_CHECKING:
    from teamwright.agent.tool import ToolContext

JOURNAL = "edits.jsonl"

WORDS = 80
"""Maximum characters of a prompt in its line."""


def digest(content: bytes) -> str:
    """Return the name of a content: its SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def store_content(history: Path, content: bytes) -> str:
    """Store a content unless it exists; return its name. Raises StorageError."""
    name = digest(content)
    if not (history / name).exists():
        make_private(history)
        write_new(history / name, content)
    return name


def load_content(history: Path, name: str) -> bytes | None:
    """Load the content of this name; None when it is missing or has another digest."""
    try:
        content = (history / name).read_bytes()
    except OSError:
        return None
    return content if digest(content) == name else None


LINK_MODE = "120000"
"""The mode of a symbolic link, as git writes it. Other files have 100644 or 100755."""


def link_content(target: bytes) -> bytes:
    """Return the content of a symbolic link, as the history has it."""
    return b"\0link\0" + target


def link_target(content: bytes) -> bytes:
    """Return the target of a link from its content in the history."""
    return content.removeprefix(link_content(b""))


def file_mode(path: str) -> str:
    """Return the present mode of a file as git writes it; empty without a file, or for another type."""
    try:
        found = os.lstat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISLNK(found):
        return LINK_MODE
    return ("100755" if found & stat.S_IXUSR else "100644") if stat.S_ISREG(found) else ""


def record_edit(ctx: ToolContext, path: Path, before: bytes | None, after: bytes) -> None:
    """Store both contents and append the line. Raises OSError (StorageError for contents)."""
    history = ctx.workplace.edit_history
    line: dict[str, object] = {
        "at": iso_time(),
        "member": ctx.member,
        "path": str(path),
        "before": None if before is None else store_content(history, before),
        "after": store_content(history, after),
        "call": ctx.call,
    }
    if before is None and (directory := _topmost_missing(path)) is not None:
        line["made"] = str(directory)
    append_line(history, line)


def record_prompt(history: Path, id: str, text: str) -> None:
    """Record a prompt, to which the following edits belong. Raises StorageError."""
    append_entry(history, {"at": iso_time(), "prompt": id, "text": " ".join(text[: 4 * WORDS].split())[:WORDS]})


def append_line(history: Path, line: Mapping[str, object]) -> None:
    """Append a line to the journal, which is created if needed. Raises OSError, StorageError."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        fd = os.open(history / JOURNAL, flags, 0o600)
    except FileNotFoundError:
        make_private(history)
        fd = os.open(history / JOURNAL, flags, 0o600)
    try:
        # Several processes append. Each line begins with a newline too, so a cut line damages only itself.
        os.write(fd, b"\n" + text + b"\n")
    finally:
        os.close(fd)


def append_entry(history: Path, line: Mapping[str, object]) -> None:
    """Append a line to the journal, like `append_line`. Raises StorageError."""
    try:
        append_line(history, line)
    except StorageError:
        raise
    except OSError as problem:
        raise storage_error(problem, history / JOURNAL) from problem


def _topmost_missing(path: Path) -> Path | None:
    """Return the topmost directory that has to be created for the file, if any."""
    topmost = None
    for parent in path.parents:
        if parent.is_dir():
            break
        topmost = parent
    return topmost
