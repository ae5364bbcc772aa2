"""Commands that only change files: mkdir, touch, cp, mv, with every path that they would read and write.

For the mode that accepts edits: a path list, judged like the paths of the edit tools. Knows words and what lies on
the disk now. Does not know rules, modes or directories.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.permissions.readonly import absolute, written_out
from teamwright.permissions.shell.options import Row, read_line
from teamwright.permissions.shell.parsed import Command
from teamwright.protocol.values import dataclass

MAX_FILES = 500
"""A copy or move of more files than this is not looked through."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The absolute paths that a command reads and writes. `last`: nothing may follow it in the same line.

    What is moved or copied may bring links along, so that paths judged before it mean something else after it.
    """

    reads: tuple[Path, ...]
    writes: tuple[Path, ...]
    last: bool = False


_ROWS = {
    "mkdir": Row(only="pv", valued="m"),
    "touch": Row(only="acm"),
    "cp": Row(only="rRapvnfiudPT"),
    "mv": Row(only="vnfiuT"),
}


def changes(command: Command) -> Changes | None:
    """What the command changes, or None when it is another one or cannot be told."""
    name = command.name
    row = _ROWS.get(name or "")
    args = written_out(command) if row is not None else None
    line = read_line(args, row) if args is not None and row is not None else None
    if line is None or any(option.startswith("--") for option in line.options) or len(command.places) != 1:
        return None
    paths = absolute(command, tuple(line.positional))
    if not paths or len(paths) != len(line.positional):
        return None
    if name in {"mkdir", "touch"}:
        return Changes((), paths)
    return _transfer(paths[:-1], paths[-1], moves=name == "mv", exact=line.has("T"))


def _transfer(sources: tuple[Path, ...], target: Path, *, moves: bool, exact: bool) -> Changes | None:
    into = not exact and (len(sources) > 1 or os.path.isdir(target))
    reads: list[Path] = []
    writes: list[Path] = [target]
    for source in sources:
        if source.name in {"", ".", ".."} and into:
            return None
        files = _all_files(source)
        if files is None:
            return None
        reads += files
        goal = Path(os.path.join(target, source.name)) if into else target
        writes += [goal / file.relative_to(source) for file in files]
        writes += files if moves else []
    return Changes(tuple(reads), tuple(writes), last=True) if sources else None


def _all_files(source: Path) -> list[Path] | None:
    """The path, and if it is a directory all below it; None when there are too many."""
    found = [source]
    if source.is_symlink() or not source.is_dir():
        return found
    for directory, names, files in os.walk(source):
        found += [Path(directory, name) for name in (*names, *files)]
        if len(found) > MAX_FILES:
            return None
    return found
