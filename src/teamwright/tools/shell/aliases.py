"""Aliases of the user's shell, expanded in a command line.

That is done before the line is judged, and what was judged is what runs: no shell expands anything later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING

from teamwright.permissions.shell.ambiguity import parser
from teamwright.permissions.shell.parser import MAX_BYTES

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_ALIASES = 500
"""Aliases that are put in place in one line."""

_MAX_DEPTH = 50


def expand_aliases(text: str, aliases: Mapping[str, str]) -> str:
    """The line with every alias that names a command put in place, as often as the shell would. Never raises.

    A line whose aliases make more of it than a command may be stays as it is.
    """
    if not aliases or len(text) > MAX_BYTES:
        return text
    known = {"time": "time ", **aliases}  # a word of the language that a command follows
    content = text.encode("utf-8", "surrogateescape")
    try:
        return _expand(content, known, count(), 0).decode("utf-8", "surrogateescape")
    except _TooManyAliases:
        return text


class _TooManyAliases(Exception):
    """Aliases of aliases without end."""


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
    """Words that stand for an alias, with its name; in the order of the line."""
    for node in _walk_nodes(parser().parse(content).root_node):
        if node.type != "command_name" or node.child_count != 1:
            continue
        word: Node | None = node.children[0]
        while word is not None and word.type in {"word", "number"}:
            name = (word.text or b"").decode("utf-8", "surrogateescape")
            if name not in aliases:
                break
            yield word, name
            # an alias that ends with a blank has the next word looked up too
            following = node.next_sibling if word is node.children[0] else word.next_sibling
            word = following if aliases[name].endswith((" ", "\t")) else None


def _walk_nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)
