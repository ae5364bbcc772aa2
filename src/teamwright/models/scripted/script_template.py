"""Templates of a script: text with `{{name}}` that is filled from captures.

Compiled once when the script is read. `{{name|sh}}` fills in one quoted word for a POSIX shell, because file names come
from others; `{{?name}}` drops its line when the name has no text. No arithmetic, no code.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct

Lookup: TypeAlias = Callable[[str], str]
"""A function that returns the text of a name; raises KeyError for one without a value."""

_SLOT = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]+)?)(\|sh)? *\}\}")
_GUARD = re.compile(r"\{\{ *\?([A-Za-z_][A-Za-z0-9_]*) *\}\}")

SlotOrText: TypeAlias = str | tuple[str, bool]
"""Literal text, or a slot: a name, and whether it is quoted for a shell."""


class TemplateLine(Struct, frozen=True):
    """Lines of a template that are kept or left out together: they are left out when a guard's name has no text."""

    guards: tuple[str, ...]
    pieces: tuple[SlotOrText, ...]


class Template(Struct, frozen=True):
    """A text with slots `{{name}}` and guards `{{?name}}`."""

    lines: tuple[TemplateLine, ...]

    @classmethod
    def compile(cls, text: str) -> Template:
        """Return the template of a text; text that does not look like a slot stays unchanged."""
        if not _GUARD.search(text):
            return cls((TemplateLine((), _pieces(text)),))
        lines = text.split("\n")
        ends = ["\n"] * (len(lines) - 1) + [""]
        template_lines = [
            TemplateLine(tuple(_GUARD.findall(line)), _pieces(_GUARD.sub("", line) + end))
            for line, end in zip(lines, ends, strict=True)
        ]
        return cls(tuple(template_lines))

    @property
    def is_plain(self) -> bool:
        """True when it has no slots and guards."""
        return not any(line.guards or any(not isinstance(piece, str) for piece in line.pieces) for line in self.lines)

    @property
    def names(self) -> frozenset[str]:
        """The names that it uses."""
        slots = {piece[0] for line in self.lines for piece in line.pieces if not isinstance(piece, str)}
        return frozenset(slots.union(*(line.guards for line in self.lines)))

    def fill(self, look: Lookup) -> str:
        """Return the text with its slots filled. Raises KeyError with the first name that has no text."""
        lines = (line for line in self.lines if all(_has(name, look) for name in line.guards))
        return "".join(
            piece if isinstance(piece, str) else _slot(piece, look) for line in lines for piece in line.pieces
        )


def _pieces(text: str) -> tuple[SlotOrText, ...]:
    pieces: list[SlotOrText] = []
    at = 0
    for slot in _SLOT.finditer(text):
        if slot.start() > at:
            pieces.append(text[at : slot.start()])
        pieces.append((slot[1], slot[2] is not None))
        at = slot.end()
    if at < len(text):
        pieces.append(text[at:])
    return tuple(pieces)


def _has(name: str, look: Lookup) -> bool:
    try:
        return bool(look(name))
    except KeyError:
        return False


def _slot(piece: tuple[str, bool], look: Lookup) -> str:
    name, quoted = piece
    text = look(name)
    return shlex.quote(text) if quoted else text


def compile_deep(value: Any) -> Any:
    """Return the value with every string that has slots replaced by its Template; keys of objects are unchanged."""
    if isinstance(value, str):
        template = Template.compile(value)
        return value if template.is_plain else template
    if isinstance(value, dict):
        return {key: compile_deep(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [compile_deep(inner) for inner in cast("list[Any]", value)]
    return value


def fill_deep(value: Any, look: Lookup) -> Any:
    """Return a new copy of a compiled value with all slots filled. Raises KeyError as `Template.fill` does."""
    if isinstance(value, Template):
        return value.fill(look)
    if isinstance(value, dict):
        return {key: fill_deep(inner, look) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [fill_deep(inner, look) for inner in cast("list[Any]", value)]
    return value


def names_deep(value: Any) -> Iterator[str]:
    """Yield every name that a compiled value needs."""
    if isinstance(value, Template):
        yield from value.names
    elif isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            yield from names_deep(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from names_deep(inner)


def insert_constants(value: Any, texts: Mapping[str, str]) -> Any:
    """Return the value with the script's constants filled into its strings; other slots stay."""
    if isinstance(value, str):
        return _SLOT.sub(lambda slot: texts.get(slot[1], slot[0]) if slot[2] is None else slot[0], value)
    if isinstance(value, dict):
        return {key: insert_constants(inner, texts) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [insert_constants(inner, texts) for inner in cast("list[Any]", value)]
    return value
