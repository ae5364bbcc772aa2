"""Paths that a search of a directory leaves out because rules forbid reading them, as patterns below that directory.

The signs are `*` and `?` within a name and `**` for any directories; a pattern for a directory covers its contents, and
case is ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

Segments = tuple[str, ...]
"""A pattern as the names between its slashes, relative to the searched directory."""

_MAX_SHOWN = 3


class ExcludedPaths(Struct, frozen=True):
    """The paths that are not shown of a directory.

    `patterns` are relative to it; `rules` are the texts of the rules; `forbids` returns True for an absolute path that
    may not be read, by its name and by its real path.
    """

    patterns: tuple[Segments, ...] = ()
    rules: tuple[str, ...] = ()
    forbids: Callable[[str], bool] = lambda _path: False

    def note(self, root: str) -> str:
        """Return one line about them, or an empty text when nothing below the directory is certainly named."""
        if not any(_exists(root, segments) for segments in self.patterns):
            return ""
        more = f" and {len(self.rules) - _MAX_SHOWN} more" if len(self.rules) > _MAX_SHOWN else ""
        return f"[files that rules forbid to read are left out: {', '.join(self.rules[:_MAX_SHOWN])}{more}]"


NOTHING_EXCLUDED = ExcludedPaths()


def patterns_below(pattern: Segments, directory: Sequence[str]) -> set[Segments]:
    """Return the rest of a pattern from the root, for paths below a directory; empty when it names none of them."""
    at = {0}
    for part in directory:
        at = {after for begin in at for after in _next_positions(pattern, begin, part)}
    return {_without_trailing_stars(pattern[begin:]) for begin in at}


def compile_patterns(patterns: Iterable[Segments]) -> re.Pattern[str]:
    """Return one expression that matches, in full, the relative paths that one of the patterns names."""
    return re.compile(
        "|".join(f"{path_expression(pattern)}(?:/.*)?" for pattern in patterns) or r"(?!)", re.IGNORECASE | re.DOTALL
    )


def segment_expression(name: str) -> str:
    """Return the expression of one name with `*` and `?`."""
    return star_expression(name, "[^/]").replace(r"\?", "[^/]")


def star_expression(text: str, sign: str) -> str:
    """Return the expression of a text in which a star is any number of `sign`.

    What a star has matched is not tried again: the first place of the text after it is as good as every later one.
    """
    first, *rest = (re.escape(part) for part in re.split(r"\*+", text))
    if not rest:
        return first
    return first + "".join(f"(?>{sign}*?{part})" for part in rest[:-1]) + f"{sign}*{rest[-1]}"


def path_expression(names: Sequence[str]) -> str:
    """Return the expression of a relative path of these names; `**` is any number of directories.

    Each `**` but the last takes as few directories as it can: the names after it may be as early as possible.
    """
    runs: list[list[str]] = [[]]
    for name in names:
        if name != "**":
            runs[-1].append(segment_expression(name))
        elif len(runs) == 1 or runs[-1]:
            runs.append([])
    first, *more = ["/".join(run) for run in runs]
    if not more:
        return first
    above = "(?:[^/]+/)*?"
    *middle, last = more
    return "".join((f"{first}/" if first else "", *(f"(?>{above}{run}/)" for run in middle), above, last or "[^/]*"))


def _next_positions(pattern: Segments, begin: int, part: str) -> set[int]:
    """Return the positions in the pattern that are possible after this name."""
    if begin == len(pattern):
        return {begin}  # a named directory includes everything below it
    if pattern[begin] == "**":
        return {begin, *_next_positions(pattern, begin + 1, part)}
    return {begin + 1} if re.fullmatch(segment_expression(pattern[begin]), part, re.IGNORECASE | re.DOTALL) else set()


def _without_trailing_stars(segments: Segments) -> Segments:
    """Return the pattern without its final stars, which add nothing."""
    end = len(segments)
    while end and segments[end - 1] == "**":
        end -= 1
    return segments[:end] or ("*",)


def _exists(directory: str, segments: Segments) -> bool:
    """Return True when a named path exists. A pattern that would need a walk counts as existing."""
    if not segments:
        return True
    name, rest = segments[0], segments[1:]
    if name == "**" or (rest and set(name) & set("*?")):
        return True
    expression = re.compile(segment_expression(name), re.IGNORECASE | re.DOTALL)
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    return any(expression.fullmatch(one) and _exists(os.path.join(directory, one), rest) for one in names)
