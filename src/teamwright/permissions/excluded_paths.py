"""What a search of a directory leaves out, because rules forbid to read it: patterns of paths below that directory.

Their only signs are `*` and `?` within a name and `**` for any directories; a pattern that names a directory names all
in it, and case does not count. Knows neither rules nor modes: who decides makes these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from teamwright.protocol.values import dataclass

Segments = tuple[str, ...]
"""A pattern by the names between its slashes; it begins at the directory that is searched."""

_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ExcludedPaths:
    """What is not shown of a directory.

    `patterns` speak of paths below it; `rules` are the texts of what says so; `forbids` tells of any absolute path
    whether it may not be read, by its name and by its real path.
    """

    patterns: tuple[Segments, ...] = ()
    rules: tuple[str, ...] = ()
    forbids: Callable[[str], bool] = lambda _path: False

    def note(self, root: str) -> str:
        """One line that says so, or an empty text where nothing below the directory is named for certain."""
        if not any(_exists(root, segments) for segments in self.patterns):
            return ""
        more = f" and {len(self.rules) - _MAX_SHOWN} more" if len(self.rules) > _MAX_SHOWN else ""
        return f"[files that rules forbid to read are left out: {', '.join(self.rules[:_MAX_SHOWN])}{more}]"


NOTHING_EXCLUDED = ExcludedPaths()


def patterns_below(pattern: Segments, directory: Sequence[str]) -> set[Segments]:
    """What is left of a pattern that begins at the root for paths below a directory; empty: it names none of them."""
    at = {0}
    for part in directory:
        at = {after for begin in at for after in _next_positions(pattern, begin, part)}
    return {_without_trailing_stars(pattern[begin:]) for begin in at}


def compile_patterns(patterns: Iterable[Segments]) -> re.Pattern[str]:
    """One expression that matches, in full, the relative paths that one of the patterns names."""
    return re.compile("|".join(map(_expression, patterns)) or r"(?!)", re.IGNORECASE | re.DOTALL)


def segment_expression(name: str) -> str:
    """The expression of one name with `*` and `?`."""
    return re.escape(name).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


def _expression(segments: Segments) -> str:
    *above, last = segments
    begin = "".join("(?:[^/]+/)*" if name == "**" else f"{segment_expression(name)}/" for name in above)
    return f"{begin}{segment_expression(last)}(?:/.*)?"


def _next_positions(pattern: Segments, begin: int, part: str) -> set[int]:
    """Where in the pattern one may stand after this name."""
    if begin == len(pattern):
        return {begin}  # what it names it names with all below
    if pattern[begin] == "**":
        return {begin, *_next_positions(pattern, begin + 1, part)}
    return {begin + 1} if re.fullmatch(segment_expression(pattern[begin]), part, re.IGNORECASE | re.DOTALL) else set()


def _without_trailing_stars(segments: Segments) -> Segments:
    """Without the stars at its end, which say what is said anyway; everything is `*`."""
    end = len(segments)
    while end and segments[end - 1] == "**":
        end -= 1
    return segments[:end] or ("*",)


def _exists(directory: str, segments: Segments) -> bool:
    """Whether something is named. Where only a walk could tell it is taken to be there."""
    if not segments:
        return True
    name, rest = segments[0], segments[1:]
    if name == "**" or (rest and set(name) & set("*?")):
        return True
    wanted = re.compile(segment_expression(name), re.IGNORECASE | re.DOTALL)
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    return any(wanted.fullmatch(one) and _exists(os.path.join(directory, one), rest) for one in names)
