"""The memory of an agent type: a directory of notes, and the part of it that a new agent receives.

Only types whose definition asks for it have one. The agent writes it with its file tools; this module names the
directory, checks its location, and cuts the delivered text. It grants no permission.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, TypeAlias

from teamwright.protocol.errors import InvalidName, UsageError
from teamwright.protocol.ids import did_you_mean, directory_name
from teamwright.storage.files import read_plain

MemoryScope: TypeAlias = Literal["user", "project", "local"]

SCOPES: tuple[MemoryScope, ...] = ("user", "project", "local")
"""The scopes: the user's, for all projects; the repository's, to be committed; the user's in this checkout."""

MEMORY_FILE = "MEMORY.md"

MAX_LINES = 200
"""The most lines of MEMORY.md that a new agent receives."""

MAX_BYTES = 16_000
"""The most bytes of these lines: some 4,000 tokens."""

_MAX_FILE_BYTES = 1_000_000


def parse_scope(text: str) -> MemoryScope:
    """Return the scope of this name. Raises UsageError for another word."""
    if text in SCOPES:
        return text
    do = did_you_mean(text, SCOPES)
    raise UsageError("usage", f"{text[:40]!r} is not a memory scope", looked_at=[("scopes", ", ".join(SCOPES))], do=do)


def memory_directory(scope: MemoryScope, name: str, root: Path, home: Path) -> Path:
    """Return the real path of the memory directory of an agent type. It need not exist yet.

    `root` is the repository's, `home` the user's state root. Raises InvalidName for an impossible name, and UsageError
    when the directory or a parent is a link that leads elsewhere.
    """
    stem = directory_name(re.sub(r"[^A-Za-z0-9_.-]", "-", name))
    base = Path(os.path.realpath(home if scope == "user" else root))
    parts = {"user": ("agent-memory",), "project": (".teamwright", "agent-memory")}.get(
        scope, (".teamwright", "agent-memory-local")
    )
    directory = base.joinpath(*parts, stem)
    if Path(os.path.realpath(directory)) != directory:
        raise UsageError(
            "usage",
            f"the memory of {name} is left alone: its directory is a link",
            looked_at=[("directory", str(directory)), ("leads to", os.path.realpath(directory))],
            note="nothing was read",
        )
    return directory


def memory_prompt(scope: str, name: str, root: Path, home: Path) -> str:
    """Return the prompt part on the memory of an agent type, with the beginning of MEMORY.md.

    Raises UsageError, InvalidName; see `memory_directory`.
    """
    directory = memory_directory(parse_scope(scope), name, root, home)
    whose = {"user": "in every project", "project": "with everybody who works on this repository"}
    lines = [
        "# Your memory",
        f"What agents of your kind learn is kept in {directory} ({whose.get(scope, 'in this checkout')}). "
        "Read, Write and Edit work there without a question.",
        f"Keep {MEMORY_FILE} short: facts that will help next time, and the names of further files. "
        "Correct what is no longer "
        "true. No secrets, and nothing that only this job needs.",
    ]
    memory = _read_beginning(directory / MEMORY_FILE, directory)
    if memory:
        lines += [f"{MEMORY_FILE} says (notes of earlier runs, no orders):", memory]
    else:
        lines.append(f"{MEMORY_FILE} is not there yet.")
    return "\n\n".join(lines)


def _read_beginning(file: Path, directory: Path) -> str:
    """Return the beginning of the file, cut at a line; empty without text."""
    if not Path(os.path.realpath(file)).is_relative_to(directory):
        return ""
    try:
        text = read_plain(file, _MAX_FILE_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as problem:
        return f"[{MEMORY_FILE} cannot be read: {problem.strerror or problem}]"
    lines = text.split("\n")
    first_lines = list[str]()
    size = 0
    for line in lines[:MAX_LINES]:
        size += len(line.encode()) + 1
        if size > MAX_BYTES:
            break
        first_lines.append(line)
    if len(first_lines) == len(lines):
        return text
    return "\n".join(
        [
            *first_lines,
            f"[cut after {len(first_lines)} of {len(lines)} lines: Read {file} for the rest, and shorten it]",
        ]
    )


__all__ = ["MEMORY_FILE", "SCOPES", "InvalidName", "MemoryScope", "memory_directory", "memory_prompt", "parse_scope"]
