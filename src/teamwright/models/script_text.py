"""Templates of a script: text with `{{name}}` that is filled from what was captured, and nothing else.

Compiled once when the script is read. `{{name|sh}}` fills in one quoted word for a POSIX shell, because file
names are other people's words. No arithmetic, no conditions, no code. Knows nothing of turns or models.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

Lookup: TypeAlias = Callable[[str], str]
"""The text of a name; raises KeyError for one that nothing has given yet."""

_SLOT = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]+)?)(\|sh)? *\}\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A text with slots. `pieces` alternates: literal text, then (name, quoted for a shell?) pairs between them."""

    pieces: tuple[str | tuple[str, bool], ...]

    @classmethod
    def compile(cls, text: str) -> Template:
        """The template of a text; whatever does not look like a slot stays as it is."""
        pieces: list[str | tuple[str, bool]] = []
        at = 0
        for slot in _SLOT.finditer(text):
            if slot.start() > at:
                pieces.append(text[at : slot.start()])
            pieces.append((slot[1], slot[2] is not None))
            at = slot.end()
        if at < len(text):
            pieces.append(text[at:])
        return cls(tuple(pieces))

    @property
    def names(self) -> frozenset[str]:
        """The names it needs."""
        return frozenset(piece[0] for piece in self.pieces if not isinstance(piece, str))

    def fill(self, look: Lookup) -> str:
        """The text with its slots filled. Raises KeyError with the first name that has no text."""
        return "".join(piece if isinstance(piece, str) else _slot(piece, look) for piece in self.pieces)


def _slot(piece: tuple[str, bool], look: Lookup) -> str:
    name, quoted = piece
    text = look(name)
    return shlex.quote(text) if quoted else text


def compile_deep(value: Any) -> Any:
    """The value with every string that has slots replaced by its Template; keys of objects are left alone."""
    if isinstance(value, str):
        template = Template.compile(value)
        return template if template.names else value
    if isinstance(value, dict):
        return {key: compile_deep(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [compile_deep(inner) for inner in cast("list[Any]", value)]
    return value


def fill_deep(value: Any, look: Lookup) -> Any:
    """A fresh copy of a compiled value with all slots filled. Raises KeyError as `Template.fill` does."""
    if isinstance(value, Template):
        return value.fill(look)
    if isinstance(value, dict):
        return {key: fill_deep(inner, look) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [fill_deep(inner, look) for inner in cast("list[Any]", value)]
    return value


def names_deep(value: Any) -> Iterator[str]:
    """Every name that a compiled value needs."""
    if isinstance(value, Template):
        yield from value.names
    elif isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            yield from names_deep(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from names_deep(inner)


def put_in(value: Any, texts: Mapping[str, str]) -> Any:
    """The value with the script's own constant texts put into its strings; other slots stay."""
    if isinstance(value, str):
        return _SLOT.sub(lambda slot: texts.get(slot[1], slot[0]) if slot[2] is None else slot[0], value)
    if isinstance(value, dict):
        return {key: put_in(inner, texts) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [put_in(inner, texts) for inner in cast("list[Any]", value)]
    return value
