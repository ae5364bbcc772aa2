"""The text of a command as a template: arguments, shell lines and files are replaced in one pass.

Replaced text is never parsed again: an argument cannot add a shell line or attach a file. A shell line takes only plain
words. Runs no program and opens no file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from teamwright.skills.skill_definition import allowed_tools, parse_head


def describe_effects(texts: Iterable[str]) -> str:
    """Return the shell lines of these texts and the calls that they allow, in full; empty when there are none."""
    runs: list[str] = []
    allows: list[str] = []
    for text in texts:
        head = parse_head(text)
        runs += shell_lines(head.body)
        allows += allowed_tools(head)
    parts = [f"runs: {' ; '.join(' '.join(line.split()) for line in runs)}"] if runs else []
    parts += [f"allows: {', '.join(dict.fromkeys(allows))}"] if allows else []
    return "; ".join(parts)


MAX_PIECES = 40
"""The most shell lines and files of one text."""

_SLOT = re.compile(
    r"\\\$|\$ARGUMENTS\[(\d{1,3})\]|\$ARGUMENTS\b|\$([0-9])(?!\d)|\$\{([A-Z_]{1,40})\}|\$([A-Za-z_][A-Za-z0-9_-]*)"
)
_FROM_ZERO = re.compile(r"(?<!\\)\$0(?!\d)")
"""The placeholder by which a text shows that it counts its arguments from 0."""

_SHELL = re.compile(r"(?<!\S)!`([^`\n]+)`")
_FILE = re.compile(r'(?<![\w@/.`])@(?:"([^"\n]+)"|([^\s"\'`<>|]+))')
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*(\S*)")
_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]*")

PieceKind: TypeAlias = Literal["text", "shell", "file"]


class UnsafeArgument(Exception):
    """An argument in a shell line is more than plain words."""


class TemplatePiece(Struct, frozen=True):
    """A part of the text. The name of a `file` piece stays in the text."""

    kind: PieceKind
    text: str


class CommandArguments(Struct, frozen=True):
    """The arguments of a command, as typed and as words. `names` are values of `${NAME}`.

    `named` are the names of the arguments by position, which the text may use as `$name`.
    """

    text: str
    words: tuple[str, ...]
    names: Mapping[str, str]
    named: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, names: Mapping[str, str] | None = None, named: tuple[str, ...] = ()) -> CommandArguments:
        """Split the text into words like a shell; at blanks when a quote is not closed."""
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        return cls(text.strip(), tuple(words), names or {}, named)


def split_template(body: str) -> list[TemplatePiece]:
    """Split the text in order: shell lines (inline, and fences that begin with `!`), files, and the rest.

    Other code fences are not searched.
    """
    found: list[TemplatePiece] = []
    plain: list[str] = []
    fence, shell = "", False
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if not fence and mark is not None:
            fence, shell = mark[1], mark[2] == "!"
            if shell:
                found += _inline("\n".join([*plain, ""]) if plain else "")
                plain = []
                continue
            found += _inline("\n".join([*plain, ""]) if plain else "")
            plain = [line]
        elif fence and mark is not None and mark[1].startswith(fence) and not mark[2]:
            if shell:
                found += [TemplatePiece("shell", "\n".join(plain)), TemplatePiece("text", "\n")]
            else:
                found.append(TemplatePiece("text", "\n".join([*plain, line, ""])))
            plain, fence, shell = [], "", False
        else:
            plain.append(line)
    rest = "\n".join(plain)
    if fence:
        found.append(TemplatePiece("text", rest))
    else:
        found += _inline(rest)
    return [piece for piece in found if piece.text]


def shell_lines(body: str) -> list[str]:
    """Return the shell lines of a text as they are written."""
    return [piece.text.strip() for piece in split_template(body) if piece.kind == "shell"]


def fill_pieces(parts: Sequence[TemplatePiece], arguments: CommandArguments) -> list[TemplatePiece]:
    """Return the pieces with arguments filled in. Arguments that no piece takes are appended.

    Raises UnsafeArgument when a shell line would take more than plain words.
    """
    first = 0 if any(_FROM_ZERO.search(part.text) for part in parts) else 1
    filled = [TemplatePiece(part.kind, _fill(part, arguments, first)) for part in parts]
    if arguments.text and not any(_has_slot(part.text, arguments) for part in parts):
        filled.append(TemplatePiece("text", f"\n\nArguments: {arguments.text}"))
    return filled


def fill_text(body: str, arguments: CommandArguments) -> str:
    """Return the text with arguments filled in. Shell lines and files stay as they are written."""
    return "".join(piece.text for piece in fill_pieces([TemplatePiece("text", body)], arguments))


def fill_names(text: str, arguments: CommandArguments) -> str:
    """Return the text with the values of `${NAME}` filled in, and nothing else."""
    return _SLOT.sub(lambda found: arguments.names.get(found[3], found[0]) if found[3] else found[0], text)


def _inline(text: str) -> Iterator[TemplatePiece]:
    """Return the shell lines and files of a text outside code fences."""
    at = 0
    marks = [(m.start(), m.end(), "shell", m[1]) for m in _SHELL.finditer(text)]
    marks += [(m.start(), m.end(), "file", m[1] or m[2]) for m in _FILE.finditer(text)]
    for start, end, kind, inner in sorted(marks):
        if start < at:
            continue  # a file name inside a shell line belongs to that line
        if start > at:
            yield TemplatePiece("text", text[at:start])
        yield TemplatePiece("shell" if kind == "shell" else "file", inner)
        at = end
    if at < len(text):
        yield TemplatePiece("text", text[at:])


def _has_slot(text: str, arguments: CommandArguments) -> bool:
    return any(
        found[0].startswith("$ARGUMENTS") or found[2] or found[4] in arguments.named for found in _SLOT.finditer(text)
    )


def _fill(piece: TemplatePiece, arguments: CommandArguments, first: int) -> str:
    def value(found: re.Match[str]) -> str:
        if found[0] == "\\$":
            return "$" if piece.kind == "text" else found[0]
        if found[3]:
            return arguments.names.get(found[3], found[0])
        if (found[1] or found[2]) and not arguments.words and piece.kind == "text":
            return found[0]  # it may be code that is shown, such as `awk '{print $1}'`
        if found[4]:
            if found[4] not in arguments.named:
                return found[0]
            text = _word(arguments, arguments.named.index(found[4]))
        elif found[1] is not None:
            text = _word(arguments, int(found[1]))
        else:
            text = _word(arguments, int(found[2]) - first) if found[2] else arguments.text
        if piece.kind == "shell" and not all(_PLAIN_WORD.fullmatch(word) for word in re.split(r"[ \t]+", text)):
            raise UnsafeArgument(text)
        return text

    return _SLOT.sub(value, piece.text)


def _word(arguments: CommandArguments, at: int) -> str:
    return arguments.words[at] if at < len(arguments.words) else ""
