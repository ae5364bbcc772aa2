"""Matching of partly known file names with the path patterns of rules.

Depends on patterns as lists of names. Words are chosen in `operands`, and verdicts made in `command_facts`.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.permissions.excluded_paths import Segments, segment_expression

if TYPE_CHECKING:
    from teamwright.shell_lines.word_expansion import Shape


class NamePattern(Struct, frozen=True):
    """A path pattern: the directory where it begins, and the names of the pattern below it. Case is ignored."""

    root: str
    rest: Segments

    @classmethod
    def parse(cls, root: str, rest: str) -> NamePattern:
        """Return the pattern `rest` below the directory `root`."""
        return cls(root, tuple(part for part in rest.split("/") if part not in {"", "."}))

    @property
    def names_directory(self) -> bool:
        """True when it may name a directory, whose contents it then includes.

        `.env` and `*.pem` are names of files: they include nothing below, unless such a directory exists.
        """
        fixed = [part for part in self.rest if part != "**"]
        if not fixed or "." not in fixed[-1] or self.rest[-1] == "**":
            return True
        return os.path.isdir(os.path.join(self.root, *fixed))

    def may_name(self, shape: Shape, *, certain: bool) -> bool:
        """Return True when a file name of this shape may become one that the pattern names.

        With `certain` the program takes the word for a file, so the unknown part may be any path. Otherwise the written
        part must contain everything that the pattern requires.
        """
        partial, full = _written_end(shape)
        root, rest = _names(self.root), tuple(part.lower() for part in self.rest)
        whole = (*root, *rest)
        free = len(whole) if certain else len(root)
        patterns = [whole, (*whole, "**")] if self.names_directory else [whole]
        if any(_ends_like(pattern, partial, full, free) for pattern in patterns):
            return True
        # The directory at its start may be one that the pattern names, with its contents.
        begin, slash, _ = (shape[0] or "").rpartition("/")
        names = _names(os.path.normpath(begin)) if slash else ()
        return any(_matches(whole, names[:end]) for end in range(1, len(names) + 1))


def _names(path: str) -> Segments:
    return tuple(part.lower() for part in path.split("/") if part not in {"", "."})


def _written_end(shape: Shape) -> tuple[str, Segments]:
    """Return the written end of a name after its last unknown part: the end of a name, and whole names after it."""
    text = (shape[-1] or "").lower() if shape else ""
    first, *full = text.split("/")
    if ".." in full:
        # `..` leaves the part before it, so its beginning is unknown.
        first, full = "", full[len(full) - full[::-1].index("..") :]
    return first, tuple(name for name in full if name not in {"", "."})


@lru_cache(maxsize=4_096)
def _ends_like(pattern: Segments, partial: str, full: Segments, free: int) -> bool:
    """Return True when a path with this end may be named; the unknown part may replace the first `free` names."""
    if not full:
        return _matches_from_unknown(pattern, partial, free)
    if not pattern:
        return False
    if pattern[-1] == "**":
        return _ends_like(pattern[:-1], partial, full, free) or _ends_like(pattern, partial, full[:-1], free)
    return _is_named(pattern[-1], full[-1]) and _ends_like(pattern[:-1], partial, full[:-1], free)


def _matches_from_unknown(pattern: Segments, partial: str, free: int) -> bool:
    if partial and pattern and pattern[-1] == "**" and _matches_from_unknown(pattern[:-1], partial, free):
        return True
    if partial and pattern and pattern[-1] != "**":
        ends = (pattern[-1][at:] for at in range(len(pattern[-1])))
        if not any(_is_named(end, partial) for end in ends):
            return False
        pattern = pattern[:-1]
    return all(name == "**" for name in pattern[free:])


@lru_cache(maxsize=4_096)
def _matches(pattern: Segments, names: Segments) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        return _matches(pattern[1:], names) or (bool(names) and _matches(pattern, names[1:]))
    return bool(names) and _is_named(pattern[0], names[0]) and _matches(pattern[1:], names[1:])


def _is_named(pattern: str, name: str) -> bool:
    return re.fullmatch(segment_expression(pattern), name, re.DOTALL) is not None
