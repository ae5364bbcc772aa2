"""File patterns as regular expressions.

`*` and `?` stay in one directory, `**` crosses them, `{a,b}` is either, `[ab]` one character. A pattern without `/`
matches the file name, at any depth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_BRACES = 200


def compile_globs(patterns: Sequence[str]) -> re.Pattern[str]:
    """Return one expression that matches a relative path with `/` when one of the patterns does. Raises re.error."""
    return re.compile("|".join(f"(?:{_expression(one)})" for pattern in patterns for one in alternatives(pattern)))


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that result from expanding the braces, at most 200."""
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= MOST_BRACES:
        one = waiting.pop(0)
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
            continue
        waiting += [one[: found.start()] + choice + one[found.end() :] for choice in found.group(1).split(",")]
    return done + waiting


def _expression(pattern: str) -> str:
    pattern = pattern.removeprefix("./")
    if "/" not in pattern.rstrip("/"):
        pattern = f"**/{pattern}"
    pattern = pattern.lstrip("/")
    if pattern.endswith("/"):
        pattern += "**"
    *above, last = pattern.split("/")
    if sum("**" in name and name != "**" for name in (*above, last)) > _MOST_CROSSING:
        raise re.error("it has too many double stars")
    runs: list[list[str]] = [[]]
    for name in above:
        if name != "**":
            runs[-1].append(f"{_name(name)}/")
        elif len(runs) == 1 or runs[-1]:
            runs.append([])
    first, *more = ["".join(run) for run in runs]
    end = (".*" if last == "**" else _name(last)) + r"\Z"
    if not more:
        return first + end
    # The names after a `**` may be as early as possible, so that only the last one is ever tried again.
    *middle, final = more
    return "".join((first, *(f"(?>{_ABOVE}{run})" for run in middle), _ABOVE, final, end))


_ABOVE = "(?:[^/]*/)*?"
_MOST_CROSSING = 3
"""The most `**` beside other signs in a name, and the most names with one, which are slow to match."""


def _name(name: str) -> str:
    """Return the expression of one name. What a star has matched is not tried again."""
    parts = re.findall(r"\*+|\?|\[!?\]?[^\]]*\]|.", name, re.DOTALL)
    if parts.count("**") > _MOST_CROSSING:
        raise re.error("it has too many double stars")
    if "**" in parts:
        return "".join(map(_part, parts))
    groups: list[str] = [""]
    for part in parts:
        if part[0] == "*":
            groups.append("")
        else:
            groups[-1] += _part(part)
    first, *more = groups
    return first + "".join(f"(?>[^/]*?{text})" for text in more[:-1]) + "".join(f"[^/]*{text}" for text in more[-1:])


def _part(part: str) -> str:
    match part:
        case "?":
            return r"[^/]"
        case _ if part[0] == "*":
            return ".*" if part == "**" else "[^/]*"
        case _ if part[0] == "[" and len(part) > 2:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            return f"[^{inside[1:]}/]" if inside[0] == "!" else f"[{inside}]"
        case _:
            return re.escape(part)
