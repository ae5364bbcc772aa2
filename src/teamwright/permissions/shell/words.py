"""One word of a shell command: its text if it is written out, None if only the shell will know.

Quotes and backslashes are taken away as bash does; whatever is not certain to come out the same is None. Knows
the node types of tree-sitter-bash. Does not know what a command is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from teamwright.permissions.table import table
from teamwright.protocol.values import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node

WORD_TYPES = table(
    "word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion"
    " command_substitution process_substitution arithmetic_expansion brace_expression regex extglob_pattern"
    " test_operator variable_name special_variable_name file_descriptor command_name array subscript"
)
"""Node types that may stand where a word stands."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word: `text` without quotes, or None; `glob` when bash would still match it against file names."""

    text: str | None
    glob: bool = False


UNKNOWN = Word(None)

_UNQUOTED_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_QUOTED_ESCAPE = re.compile(r'\\([\\"$`])')
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}|\{[^}]*\{|\}[^{]*\}")


def source(node: Node) -> str:
    """The text of a node as it was written."""
    return (node.text or b"").decode("utf-8", "surrogateescape")


def word_of(node: Node) -> Word:
    """The word that a node stands for."""
    plain = _unquoted(node)
    if plain is not None and (_BRACES.search(plain) or ("[" in plain and plain != "[")):
        return UNKNOWN  # braces make several words; bash and Python do not agree on all bracket expressions
    return _word(node)


def _word(node: Node) -> Word:
    match node.type:
        case "command_name":
            return word_of(node.children[0]) if len(node.children) == 1 else UNKNOWN
        case "word" | "number" | "variable_name" | "test_operator" | "file_descriptor":
            return _plain(source(node))
        case "raw_string":
            return Word(_no_home(source(node)[1:-1]))
        case "string":
            return _string(node)
        case "ansi_c_string":
            text = source(node)
            return UNKNOWN if "\\" in text else Word(_no_home(text[2:-1]))
        case "concatenation":
            return _joined([_word(child) for child in node.children])
        case _:
            return UNKNOWN


def _plain(text: str) -> Word:
    bare = _UNQUOTED_ESCAPE.sub("", text)
    if text.startswith("~"):
        # `~`, `~/x` are the home; `~name` and `~+` are somebody's that we do not look up
        return Word(text) if text == "~" or (text.startswith("~/") and "\\" not in text) else UNKNOWN
    return Word(_UNQUOTED_ESCAPE.sub(lambda m: "" if m[1] == "\n" else m[1], text), "*" in bare or "?" in bare)


def _string(node: Node) -> Word:
    text = source(node)
    if text.startswith("$") or any(child.type != "string_content" for child in node.named_children):
        return UNKNOWN
    inner = text[1:-1].replace("\\\n", "")
    return Word(_no_home(_QUOTED_ESCAPE.sub(r"\1", inner)))


def _no_home(quoted: str) -> str:
    """A quoted tilde is itself: `./~` says the same to a program and cannot be taken for the home."""
    return "./" + quoted if quoted.startswith("~") else quoted


def _joined(parts: list[Word]) -> Word:
    texts = [part.text for part in parts]
    if any(text is None for text in texts) or (texts and (texts[0] or "").startswith("~")):
        return UNKNOWN
    glob = any(part.glob for part in parts)
    whole = "".join(text for text in texts if text is not None)
    if glob and any(not part.glob and part.text and set(part.text) & set("*?") for part in parts):
        return UNKNOWN  # one star quoted, another not
    return Word(whole, glob)


def _unquoted(node: Node) -> str | None:
    """The unquoted text of a word, each quoted part as one `"`; None for nodes that hold none."""
    if node.type == "concatenation":
        return "".join(_unquoted(child) or '"' for child in node.children)
    return _UNQUOTED_ESCAPE.sub("", source(node)) if node.type in {"word", "number"} else None
