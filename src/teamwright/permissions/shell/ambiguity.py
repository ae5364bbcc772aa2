"""Where a line may be read otherwise than it looks: odd characters, and a second reader that must agree.

The second reader is tree-sitter-bash, loaded when first needed. Only what it and `grammar` read alike is taken for what
bash would do. Does not know what a command is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from teamwright.permissions.shell.scanner import SyntaxMarks
from teamwright.permissions.word_lists import word_set

if TYPE_CHECKING:
    from tree_sitter import Parser, Query

RESERVED = word_set("{ } ! if then else elif fi while until for do done case esac select function [[ ]] (( )) in")
"""Words that bash takes as its own where a command begins: no program is called so."""

_STRANGE = re.compile(r"[^\S \t\n]|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CODE = re.compile(r"\$\(|`|<\(|>\(")
_QUERY = (
    "(command_name) @commands (test_command) @commands (declaration_command) @commands (unset_command) @commands"
    " (file_redirect) @redirections (heredoc_redirect) @redirections (herestring_redirect) @redirections"
    " (comment) @comments"
)


def has_odd_characters(text: str) -> bool:
    """Whether it has characters that a person reads differently from bash."""
    return _STRANGE.search(text) is not None


def has_control_characters(text: str) -> bool:
    """Whether it has what some shells take for a blank, a sign of their own or the end, or what is no character."""
    return _CONTROLS.search(text) is not None


def is_code(text: str | None) -> bool:
    """Whether a text that was quoted would run something, if it were read once more."""
    return text is None or _CODE.search(text) is not None


@cache
def parser() -> Parser:
    """The second reader, loaded at the first use."""
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
    """Whether the second reader sees commands, redirections and comments begin at the same places."""
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
    """The places counted in bytes."""
    if text.isascii():
        return set(places)
    found: set[int] = set()
    counted = before = 0
    for place in sorted(places):
        counted += len(text[before:place].encode("utf-8", "surrogateescape"))
        before = place
        found.add(counted)
    return found
