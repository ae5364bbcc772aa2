"""Positions in a TOML text: the line of a table or a key, for errors that a person can follow.

The parser of the standard library reports no positions for valid text, so the text is scanned line by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*(?P<name>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=(?P<value>.*)$"""
)
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_LONG = re.compile(r"'''|\"\"\"")


def line_of(text: str, keys: Sequence[str]) -> int:
    """Return the line, from 1 on, of the key at this path; else of the nearest parent that is found, else 1.

    `keys` is the path from the top of the file (`["roles", "tester", "model"]`).
    """
    best, depth = 1, 0
    for number, path in _places(text):
        shared = _shared(path, keys)
        if shared > depth and shared == len(path):
            best, depth = number, shared
    return best


def _places(text: str) -> list[tuple[int, list[str]]]:
    """Return every header and key with its line; the content of long strings is skipped."""
    found: list[tuple[int, list[str]]] = []
    table: list[str] = []
    closing = ""
    for number, line in enumerate(text.split("\n"), 1):
        if closing:
            closing = "" if closing in line else closing
            continue
        header = _HEADER.match(line)
        if header is not None:
            table = _parts(header["name"])
            found.append((number, table))
            continue
        key = _KEY.match(line)
        if key is None:
            continue
        path = [*table, *_parts(key["name"])]
        found.append((number, path))
        value = key["value"]
        found += [(number, [*path, inner]) for inner in _inner(value)]
        opened = _LONG.search(value)
        if opened is not None and value.count(opened[0]) == 1:
            closing = opened[0]
    return found


def _inner(value: str) -> list[str]:
    """Return the keys of an inline table on the line."""
    return re.findall(r"[{,]\s*([\w-]+)\s*=", value) if value.lstrip().startswith("{") else []


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(name)]


def _shared(path: Sequence[str], keys: Sequence[str]) -> int:
    count = 0
    for one, other in zip(path, keys, strict=False):
        if one != other:
            break
        count += 1
    return count
