"""Where the parser reads otherwise than bash: odd characters, texts in quotes, here-documents, reserved words.

Each function answers why a piece cannot be trusted to have been read right, or with an empty text. Knows the node
types of tree-sitter-bash. Does not know what a command is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from teamwright.permissions.shell.words import WORD_TYPES, source
from teamwright.permissions.table import table

if TYPE_CHECKING:
    from tree_sitter import Node

RESERVED = table("{ } ! if then else elif fi while until for do done case esac select function [[ ]] (( )) in")
"""Words that bash takes as its own where a command begins: no program is called so."""

_STRANGE = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_BLANKS = re.compile(r"[\r\v\f\0]|(?<=[^ \t\n;&|])\\\n")
_DESCRIPTOR = re.compile(r"\{[A-Za-z_]\w*\}")
_BLANK = re.compile(rb"(?:[ \t]|\\\n)*")
_SIGNS = re.compile(r"[\s;&|<>()`\"']|\$\[")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_DELIMITER = re.compile(r"(?P<plain>[\w.-]+)|(?:'(?P<one>[\w. -]+)'|\"(?P<two>[\w. -]+)\"|\\(?P<escaped>[\w.-]+))")
_FILLED_IN = re.compile(r"`|\$[\w({\[@*#?!$-]")
_CODE = re.compile(r"\$\(|`|<\(|>\(")


def odd_characters(text: str) -> bool:
    """Whether it has characters that a person reads differently from bash."""
    return _STRANGE.search(text) is not None


def other_blanks(text: str) -> bool:
    """Whether it has what the parser takes for a blank and bash does not, or a word broken over two lines."""
    return _BLANKS.search(text) is not None


def names_descriptor(word: Node) -> bool:
    """`{name}>file`: to bash no word but where it keeps the descriptor."""
    return _DESCRIPTOR.fullmatch(source(word)) is not None


def holds_signs(word: Node) -> bool:
    """Whether an unquoted word holds what would end it, or begin something else in it."""
    return _SIGNS.search(_ESCAPED.sub("", source(word))) is not None


def fills_in(content: Node) -> bool:
    """Whether a piece between double quotes that was taken for plain text would be filled in by bash."""
    return _FILLED_IN.search(_ESCAPED.sub("", source(content))) is not None


def is_code(text: str | None) -> bool:
    """Whether a text that was quoted would run something, if it were read once more."""
    return text is None or _CODE.search(text) is not None


def touching(command: Node) -> str:
    """Between two words of one command bash sees blanks and nothing else; without a blank they are one word."""
    whole, start = command.text or b"", command.start_byte
    for one, other in pairwise(command.children):
        gap = whole[one.end_byte - start : other.start_byte - start]
        if not _BLANK.fullmatch(gap):
            return "it has a line break where none can be"
        if not gap and one.type in WORD_TYPES and other.type in WORD_TYPES:
            return "it has a word that is quoted in a rare way"
    return ""


def here_document(redirect: Node, lines: Sequence[str]) -> str:
    """Whether a here-document ends where bash would end it, and nothing in it is filled in unseen.

    `lines` are those of the whole text.
    """
    parts = {child.type: child for child in redirect.children}
    start, body, end = (parts.get(name) for name in ("heredoc_start", "heredoc_body", "heredoc_end"))
    found = _DELIMITER.fullmatch(source(start)) if start is not None else None
    if found is None or body is None or end is None:
        return "it has a here-document with a rare end"
    name = found["plain"] or found["one"] or found["two"] or found["escaped"]
    first, last = body.start_point.row, end.start_point.row
    written = [line.lstrip("\t") if "<<-" in parts else line for line in lines[first : last + 1]]
    if not written or written[-1] != name or name in written[:-1]:
        return "it has a here-document with a rare end"
    if found["plain"] is None:
        return ""
    text = "\n".join(lines[first:last])
    if re.search(r"(?<!\\)(\\\\)*\\(\n|$)", text):
        return "it has a here-document with lines that are joined"
    return "it has a here-document that is not looked into" if _FILLED_IN.search(_unseen(body, text)) else ""


def _unseen(body: Node, text: str) -> str:
    """What is left of the text without the parts that the parser knows to be filled in, and without escapes."""
    for part in body.named_children:
        if part.type not in {"heredoc_content", "string_content"}:
            text = text.replace(source(part), " ", 1)
    return _ESCAPED.sub("", text)
