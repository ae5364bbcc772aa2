"""Aliases of the user's shell, put in place in a command line.

That is done before the line is judged, and what was judged is what runs: no shell expands anything later. Knows the
grammar of the shell; knows no shell, no rule and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from teamwright.permissions.shell import MAX_BYTES, parser

if TYPE_CHECKING:
    from tree_sitter import Node


def expanded(text: str, aliases: Mapping[str, str]) -> str:
    """The line with every alias that names a command put in place, as often as the shell would. Never raises."""
    if not aliases or len(text) > MAX_BYTES:
        return text
    content = text.encode("utf-8", "surrogateescape")
    aliases = {"time": "time ", **aliases}  # a word of the language that a command follows
    parts: list[bytes] = []
    at = 0
    for begin, end, body in _replaced(content, aliases):
        parts += [content[at:begin], body]
        at = end
    whole = b"".join([*parts, content[at:]])
    return whole.decode("utf-8", "surrogateescape") if len(whole) <= MAX_BYTES else text


def _replaced(content: bytes, aliases: Mapping[str, str]) -> Iterator[tuple[int, int, bytes]]:
    """Where a word stands for an alias, and its text; in the order of the line."""
    after = -1
    for node in _in_order(parser().parse(content).root_node):
        if node.type != "command_name" or node.child_count != 1 or node.start_byte < after:
            continue
        word: Node | None = node.children[0]
        while word is not None and word.type in {"word", "number"}:
            name = (word.text or b"").decode("utf-8", "surrogateescape")
            if name not in aliases:
                break
            others = {other: body for other, body in aliases.items() if other != name}
            body = expanded(aliases[name], others)
            after = word.end_byte
            yield word.start_byte, after, body.encode("utf-8", "surrogateescape")
            # an alias that ends with a blank has the next word looked up too
            following = node.next_sibling if word is node.children[0] else word.next_sibling
            word = following if aliases[name].endswith((" ", "\t")) else None


def _in_order(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)
