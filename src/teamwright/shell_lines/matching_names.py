"""The names of files that a pattern of the shell matches, with every entry that is read counted as work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from teamwright.shell_lines.step_limit import found_once, spend_steps

_WILD = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Return True when a name has a sign of a pattern."""
    return not _WILD.isdisjoint(name)


def matching_names(pattern: str, directory: str | None, most: int, *, by_bytes: bool = False) -> list[str] | None:
    """Return the files that a pattern names, in no order; None for more than `most`.

    `directory` is where a relative pattern begins; None: in no known one. `by_bytes`: a `?` is one byte.
    """
    return found_once(
        (matching_names, pattern, directory, most, by_bytes), lambda: _find(pattern, directory, most, by_bytes)
    )


def _find(pattern: str, directory: str | None, most: int, by_bytes: bool) -> list[str] | None:
    found: list[str] = []
    for name in _match(directory or "", "", pattern.split("/"), by_bytes):
        found.append(name)
        if len(found) > most:
            return None
    return found


def _match(place: str, above: str, parts: Sequence[str], by_bytes: bool) -> Iterator[str]:
    """Yield the names for the last parts of a pattern below the name `above`, which ends in a slash or is empty."""
    part, rest = parts[0], parts[1:]
    if not is_pattern(part):
        if rest:
            yield from _match(place, f"{above}{part}/", rest, by_bytes)
        elif os.path.lexists(os.path.join(place, above, part)):
            spend_steps(3)
            yield above + part
        return
    for entry in _entries(os.path.join(place, above)):
        if (entry.name.startswith(".") and not part.startswith(".")) or not _is_named(entry.name, part, by_bytes):
            continue
        if not rest:
            yield above + entry.name
        elif entry.is_dir():
            yield from _match(place, f"{above}{entry.name}/", rest, by_bytes)


def _is_named(name: str, pattern: str, by_bytes: bool) -> bool:
    return fnmatchcase(os.fsencode(name), os.fsencode(pattern)) if by_bytes else fnmatchcase(name, pattern)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    """Return the entries of a directory; none for a file or an unreadable directory."""
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(directory or ".") as entries:
            for entry in entries:
                spend_steps(2)
                found.append(entry)
    except (OSError, ValueError):
        return []
    return found
