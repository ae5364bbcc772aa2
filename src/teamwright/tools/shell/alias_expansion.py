"""Expansion of the user's shell aliases in a command line.

It happens before the verdict, and the expanded command runs: no shell expands aliases later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING

from teamwright.shell_lines.ambiguity import parser
from teamwright.shell_lines.parse import MAX_BYTES

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_ALIASES = 500
"""The most alias expansions in one line."""

_MAX_DEPTH = 50


def expand_aliases(text: str, aliases: Mapping[str, str]) -> str:
    """Return the line with each alias in command position expanded, repeatedly like the shell does. Never raises.

    A line that would grow beyond the limits of a command is returned unchanged.
    """
    if not aliases or len(text) > MAX_BYTES:
        return text
    known = {"time": "time ", **aliases}  # a keyword that a command follows
    content = text.encode("utf-8", "surrogateescape")
    try:
        return _expand(content, known, count(), 0).decode("utf-8", "surrogateescape")
    except _TooManyAliases:
        return text


class _TooManyAliases(Exception):
    """Aliases expand to aliases without end."""


def _expand(content: bytes, aliases: Mapping[str, str], counter: Iterator[int], depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise _TooManyAliases
    parts: list[bytes] = []
    at = 0
    for word, name in _find_alias_words(content, aliases):
        if next(counter) > _MAX_ALIASES:
            raise _TooManyAliases
        others = {other: body for other, body in aliases.items() if other != name}
        body = aliases[name].encode("utf-8", "surrogateescape")
        parts += [content[at : word.start_byte], _expand(body, others, counter, depth + 1)]
        at = word.end_byte
    whole = b"".join([*parts, content[at:]])
    if len(whole) > MAX_BYTES:
        raise _TooManyAliases
    return whole


def _find_alias_words(content: bytes, aliases: Mapping[str, str]) -> Iterator[tuple[Node, str]]:
    """Return the words that are aliases, with the alias name, in the order of the line."""
    for node in _walk_nodes(parser().parse(content).root_node):
        if node.type != "command_name" or node.child_count != 1:
            continue
        word: Node | None = node.children[0]
        while word is not None and word.type in {"word", "number"}:
            name = (word.text or b"").decode("utf-8", "surrogateescape")
            if name not in aliases:
                break
            yield word, name
            # After an alias that ends with a blank, the next word is an alias candidate too.
            following = node.next_sibling if word is node.children[0] else word.next_sibling
            word = following if aliases[name].endswith((" ", "\t")) else None


def _walk_nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)
