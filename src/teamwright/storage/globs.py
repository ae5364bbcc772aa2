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
    parts = re.findall(r"\*\*/|/\*\*$|\*+|\?|\[!?\]?[^\]]*\]|.", pattern, re.DOTALL)
    return "".join(_part(part) for part in parts) + r"\Z"


def _part(part: str) -> str:
    match part:
        case "**/":
            return r"(?:.*/)?"
        case "/**":
            return r"/.*"
        case "?":
            return r"[^/]"
        case "**":
            return r".*"
        case _ if part[0] == "*":
            return r"[^/]*"
        case _ if part[0] == "[" and len(part) > 2:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            return f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
        case _:
            return re.escape(part)
