"""Instruction files of `.claude/rules`: their locations, and the files to which each applies.

A front matter with `paths` limits a file to these patterns, relative to the directory that contains `.claude`. Depends
on front matter and patterns; `agent.instructions` reads the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.skills.front_matter import field_lines, split
from teamwright.storage.files import compile_globs

FOLDER = ".claude"
MAX_RULES = 200
"""The number of files in one directory of rules that are read. Further files are left out."""

_DEEPEST = 8
_COMMA = re.compile(r",(?![^{]*\})")


class ScopedRule(Struct, frozen=True):
    """One file with `paths`.

    `base` is the directory to which the patterns are relative; `own`: the file is the user's.
    """

    path: Path
    base: Path
    patterns: tuple[str, ...]
    own: bool = False

    @property
    def about(self) -> str:
        """The files to which it applies, as text."""
        return f"files that match {', '.join(self.patterns)}"

    def matches(self, real: Path) -> bool:
        """Return True when the rule is for this file, given by its real path. Raises re.error for a bad pattern."""
        if not real.is_relative_to(self.base):
            return False
        return compile_globs(_anchored(self.patterns)).match(real.relative_to(self.base).as_posix()) is not None


def _anchored(patterns: tuple[str, ...]) -> list[str]:
    """Return the patterns anchored at the base: without `/` they match files directly in it."""
    return [f"/{pattern.removeprefix('./').lstrip('/')}" for pattern in patterns]


def rule_files(base: Path) -> Iterator[Path]:
    """Return the rule files of the directory that contains `.claude`, in a stable order.

    Linked directories are read once.
    """
    seen = set[str]()
    for number, path in enumerate(_walk(base / FOLDER / "rules", 0, seen)):
        if number >= MAX_RULES:
            return
        yield path


def _walk(place: Path, depth: int, seen: set[str]) -> Iterator[Path]:
    real = os.path.realpath(place)
    if depth > _DEEPEST or real in seen:
        return
    seen.add(real)
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return
    for name in names:
        path = place / name
        if name.endswith(".md") and not path.is_dir():
            yield path
        elif path.is_dir():
            yield from _walk(path, depth + 1, seen)


def scope_of(text: str) -> tuple[tuple[str, ...], str]:
    """Return the patterns of a rule (none: it applies to all files) and its text below the front matter."""
    parts = split(text)
    if parts is None:
        return (), text
    found = [one for one in field_lines(parts[0], lambda _key, _before: True) if one.key == "paths"]
    return tuple(pattern for one in found for pattern in _patterns(one.text)), parts[1]


def _patterns(text: str) -> Iterator[str]:
    """Return the patterns of a value: a YAML list, or texts separated by commas; quotes are optional."""
    whole = text.strip()
    flow = whole[1:-1] if whole[:1] == "[" and whole[-1:] == "]" and ("," in whole or '"' in whole) else whole
    for line in flow.split("\n"):
        for part in _COMMA.split(line.strip().removeprefix("- ")):
            if pattern := part.strip().strip("\"'"):
                yield pattern
