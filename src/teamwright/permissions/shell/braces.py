"""Brace expansion: `{a,b}` and `{1..3}` in a word make several words, before anything else is filled in.

Only forms that bash 3.2 to 5.3 and zsh expand alike; every other is unknown. Works on parts of words, looks at no file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from teamwright.permissions.shell.syntax import Part, Text, Variable

MAX_WORDS = 200
"""More words than this from one are unknown."""

MAX_BRACES = 20

_SEQUENCE = re.compile(r"(-?(?:0|[1-9][0-9]{0,5}))\.\.(-?(?:0|[1-9][0-9]{0,5}))")
_SEVERAL = re.compile(r",|\.\.")

Atom = str | Part
"""One character that is not quoted, or a part that braces do not look into."""


class _NotCertain(Exception):
    """The word has braces that shells expand differently, or too many."""


def expand_braces(parts: Sequence[Part]) -> list[tuple[Part, ...]] | None:
    """The words in order, each as its parts; None when they are not certain. A part may be empty."""
    bare = "".join(part.text for part in parts if isinstance(part, Text) and not part.quoted)
    if "{" not in bare or not _SEVERAL.search(bare):
        return [tuple(parts)]
    if bare.count("{") > MAX_BRACES:
        return None
    if any(_is_dollar(one) and isinstance(two, Text) and two.text.startswith("{") for one, two in pairwise(parts)):
        return None  # `$${` opens no braces
    atoms: list[Atom] = []
    for part in parts:
        atoms += part.text if isinstance(part, Text) and not part.quoted else [part]
    try:
        return [_joined(one) for one in _expand(atoms)]
    except _NotCertain:
        return None


def _is_dollar(part: Part) -> bool:
    return isinstance(part, Variable) and part.name == "$"


def _joined(atoms: Sequence[Atom]) -> tuple[Part, ...]:
    made: list[Part] = []
    text = ""
    for atom in atoms:
        if isinstance(atom, str):
            text += atom
            continue
        made += [Text(text)] if text else []
        made.append(atom)
        text = ""
    return tuple(made + ([Text(text)] if text else []))


def _expand(atoms: Sequence[Atom]) -> list[list[Atom]]:
    begin = next((at for at, atom in enumerate(atoms) if atom == "{"), None)
    if begin is None:
        if "}" in atoms:
            raise _NotCertain
        return [list(atoms)]
    before, (choices, end) = list(atoms[:begin]), _choices(atoms, begin)
    if "}" in before:
        raise _NotCertain
    found: list[list[Atom]] = []
    after = _expand(atoms[end + 1 :])
    for choice in choices:
        for rest in after:
            found.append([*before, *choice, *rest])
            if len(found) > MAX_WORDS:
                raise _NotCertain
    return found


def _choices(atoms: Sequence[Atom], begin: int) -> tuple[list[list[Atom]], int]:
    """What the braces that open here stand for, and where they close."""
    depth, start = 0, begin + 1
    pieces: list[Sequence[Atom]] = []
    for at in range(begin, len(atoms)):
        atom = atoms[at]
        depth += {"{": 1, "}": -1}.get(atom, 0) if isinstance(atom, str) else 0
        if depth == 0 or (depth == 1 and atom == ","):
            pieces.append(atoms[start:at])
            start = at + 1
        if depth == 0:
            return _made(pieces), at
    raise _NotCertain


def _made(pieces: list[Sequence[Atom]]) -> list[list[Atom]]:
    if len(pieces) > 1:
        return [one for piece in pieces for one in _expand(piece)]
    inner = pieces[0]
    text = "".join(atom if isinstance(atom, str) else "\0" for atom in inner)
    sequence = _SEQUENCE.fullmatch(text)
    if sequence is not None:
        first, last = int(sequence[1]), int(sequence[2])
        step = 1 if last >= first else -1
        if abs(last - first) > MAX_WORDS:
            raise _NotCertain
        return [list(str(number)) for number in range(first, last + step, step)]
    if ".." in text or "{" in text:
        raise _NotCertain
    return [["{", *inner, "}"]]
