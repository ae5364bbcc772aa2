"""Checks for shell lines with several possible readings: odd characters, and a second parser that must agree.

The second parser is tree-sitter-bash, loaded on first use. Only lines that it and `grammar` read alike count as
understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.line_cursor import SyntaxMarks

if TYPE_CHECKING:
    from tree_sitter import Parser, Query

RESERVED = word_set("{ } ! if then else elif fi while until for do done case esac select function [[ ]] (( )) in")
"""Reserved words of bash at the start of a command: no program has such a name."""

_STRANGE = re.compile(r"[^\S \t\n]|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CODE = re.compile(r"\$\(|`|<\(|>\(")
_PIECE = re.compile(r"\$|\\[0-7xuU]")
"""A `$`, also as an escape that `printf -v` and `${x@E}` decode."""

_ZSH_ONLY = re.compile(r">!|&[!|]|(?<![^\s;&|(`])=\w|(^|[;&|(){}!`\n]|\b(do|then|else|time))\s*(-|repeat)\s")
_READ_ALIKE = re.compile(
    r"[ \t\n]+|&&|\|\|?(?!&)|;(?![;&|])|[0-2]?>&[0-2](?!\w)|[0-2]?>>?(?=[ \t]*[\w./'\"])|<(?=[ \t]*[a-zA-Z_./'\"])"
    r"|[A-Za-z0-9_./:@%+,-]+|(?<=\w)=(?!=)|'[^']*'|\$\?(?![\w\[:])"
    r"|\"(?:[^\"$`\\!]|\$(?:[A-Z_]+|\?)(?![\w\[:]))*\""
)
"""One piece of such a text.

A `<` before a digit begins a range of numbers in zsh; a `[` or `:` after a variable selects a part of its value."""

_QUERY = (
    "(command_name) @commands (test_command) @commands (declaration_command) @commands (unset_command) @commands"
    " (file_redirect) @redirections (heredoc_redirect) @redirections (herestring_redirect) @redirections"
    " (comment) @comments"
)


def has_odd_characters(text: str) -> bool:
    """Return True when it has characters that a person reads differently from bash."""
    return _STRANGE.search(text) is not None


def has_control_characters(text: str) -> bool:
    """Return True when it has characters that some shells take for a blank, an operator or the end, or invalid ones."""
    return _CONTROLS.search(text) is not None


def is_code(text: str | None) -> bool:
    """Return True when a quoted text would run something if it were parsed again."""
    return text is None or _CODE.search(text) is not None


def may_become_code(text: str | None) -> bool:
    """Return True when a text, joined with another one, may run something if it were parsed again."""
    return text is None or _PIECE.search(text) is not None or is_code(text)


def is_read_by_zsh_alone(text: str) -> bool:
    """Return True for syntax that zsh reads differently from the grammar."""
    return _ZSH_ONLY.search(text) is not None


def is_read_alike(text: str) -> bool:
    """Return True for a text that bash, zsh and sh certainly read alike, with all options of a user.

    It has plain words and quotes, joined by plain operators.
    """
    end = 0
    while (piece := _READ_ALIKE.match(text, end)) is not None:  # possessive groups fail in Python 3.11.2
        end = piece.end()
    return end == len(text) and not is_read_by_zsh_alone(text)


@cache
def parser() -> Parser:
    """Return the second parser, loaded on first use."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


@cache
def _query() -> Query:
    from tree_sitter import Query

    language = parser().language
    assert language is not None
    return Query(language, _QUERY)


def is_confirmed(text: str, marks: SyntaxMarks) -> bool:
    """Return True when the second parser finds commands, redirections and comments at the same positions."""
    from tree_sitter import QueryCursor

    root = parser().parse(text.encode("utf-8", "surrogateescape")).root_node
    if root.has_error:
        return False
    found = QueryCursor(_query()).captures(root)
    for name, places in (
        ("commands", marks.commands),
        ("redirections", marks.redirections),
        ("comments", marks.comments),
    ):
        if {node.start_byte for node in found.get(name, ())} != _byte_offsets(text, places):
            return False
    return True


def _byte_offsets(text: str, places: Iterable[int]) -> set[int]:
    """Return the positions in bytes."""
    if text.isascii():
        return set(places)
    found: set[int] = set()
    counted = before = 0
    for place in sorted(places):
        counted += len(text[before:place].encode("utf-8", "surrogateescape"))
        before = place
        found.add(counted)
    return found
