"""The text of a command as a template: arguments put in, shell lines and files named, in one pass.

What is put in is never looked at again: an argument makes no shell line and attaches no file of its own. Into a
shell line go plain words only. Runs nothing and opens no file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from teamwright.protocol.values import dataclass

PIECES_MOST = 40
"""Shell lines and files of one text."""

_SLOT = re.compile(r"\\\$|\$ARGUMENTS\[(\d{1,3})\]|\$ARGUMENTS\b|\$([1-9])(?!\d)|\$\{([A-Z_]{1,40})\}")
_SHELL = re.compile(r"(?<!\S)!`([^`\n]+)`")
_FILE = re.compile(r'(?<![\w@/.`])@(?:"([^"\n]+)"|([^\s"\'`<>|]+))')
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*(\S*)")
_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]*")

PieceKind: TypeAlias = Literal["text", "shell", "file"]


class NotPlain(Exception):
    """An argument would stand in a shell line and is more than plain words."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text. A `file` piece is also a part of the text that is told: its name stays in it."""

    kind: PieceKind
    text: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """What followed the command: as it was typed, and as words. `names` are values of `${NAME}`."""

    text: str
    words: tuple[str, ...]
    names: Mapping[str, str]

    @classmethod
    def of(cls, text: str, names: Mapping[str, str] | None = None) -> Arguments:
        """Words as a shell would cut them; where quotes are open, at blanks."""
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        return cls(text.strip(), tuple(words), names or {})


def pieces(body: str) -> list[Piece]:
    """The text cut up, in its order: shell lines (inline, and fences that begin with `!`), files, and the rest.

    Nothing is looked for in other code fences.
    """
    found: list[Piece] = []
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
                found += [Piece("shell", "\n".join(plain)), Piece("text", "\n")]
            else:
                found.append(Piece("text", "\n".join([*plain, line, ""])))
            plain, fence, shell = [], "", False
        else:
            plain.append(line)
    rest = "\n".join(plain)
    if fence:
        found.append(Piece("text", rest))
    else:
        found += _inline(rest)
    return [piece for piece in found if piece.text]


def shell_lines(body: str) -> list[str]:
    """The shell lines of a text as they are written."""
    return [piece.text.strip() for piece in pieces(body) if piece.kind == "shell"]


def filled(parts: Sequence[Piece], given: Arguments) -> list[Piece]:
    """The pieces with the arguments in them; arguments that no piece takes stand at the end.

    Raises NotPlain when a shell line would take more than plain words.
    """
    made = [Piece(part.kind, _fill(part, given)) for part in parts]
    if given.text and not any(_takes(part.text) for part in parts):
        made.append(Piece("text", f"\n\nArguments: {given.text}"))
    return made


def filled_text(body: str, given: Arguments) -> str:
    """The text with the arguments in it, and nothing else done: shell lines and files stay as they are written."""
    return "".join(piece.text for piece in filled([Piece("text", body)], given))


def _inline(text: str) -> Iterator[Piece]:
    """Shell lines and files of a text outside code fences."""
    at = 0
    marks = [(m.start(), m.end(), "shell", m[1]) for m in _SHELL.finditer(text)]
    marks += [(m.start(), m.end(), "file", m[1] or m[2]) for m in _FILE.finditer(text)]
    for start, end, kind, inner in sorted(marks):
        if start < at:
            continue  # a file that is named inside a shell line is the shell's
        if start > at:
            yield Piece("text", text[at:start])
        yield Piece("shell" if kind == "shell" else "file", inner)
        at = end
    if at < len(text):
        yield Piece("text", text[at:])


def _takes(text: str) -> bool:
    return any(found[0].startswith("$ARGUMENTS") or found[2] for found in _SLOT.finditer(text))


def _fill(piece: Piece, given: Arguments) -> str:
    def value(found: re.Match[str]) -> str:
        if found[0] == "\\$":
            return "$" if piece.kind == "text" else found[0]
        if found[3]:
            return given.names.get(found[3], found[0])
        if found[1] is not None:
            said = _word(given, int(found[1]))
        else:
            said = _word(given, int(found[2]) - 1) if found[2] else given.text
        if piece.kind == "shell" and not all(_PLAIN_WORD.fullmatch(word) for word in re.split(r"[ \t]+", said)):
            raise NotPlain(said)
        return said

    return _SLOT.sub(value, piece.text)


def _word(given: Arguments, at: int) -> str:
    return given.words[at] if at < len(given.words) else ""
