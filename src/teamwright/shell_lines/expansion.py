"""Expansion of words as bash does it: braces, tilde and known variables are filled in, quotes removed.

A word that only the shell knows keeps its fixed parts. Looks at no file.

The encoding matters too: in GBK, Big5 and Shift JIS a character may consist of a byte above 127 and a backslash, a bar
or a bracket. A line in UTF-8 then has other quotes than it seems to have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import groupby, pairwise

from msgspec import Struct
from msgspec.structs import replace

from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.syntax_tree import (
    Calculation,
    EncodedText,
    FixedText,
    Substitution,
    Variable,
    Word,
    WordPart,
)
from teamwright.shell_lines.variables import ShellVariables

Shape = tuple[str | None, ...]
"""The known parts of an unknown word: its fixed texts in order, and None for each unknown part between them."""

ANY_SHAPE: Shape = (None,)


class ExpandedWord(Struct, frozen=True):
    """One word as a program gets it: its `text`, or None when only the shell knows it.

    `glob`: bash matches the text against file names. `shape` has the known parts of a word without a text. `splits`: an
    unknown word that may become several words, none, or names of files.
    """

    text: str | None
    glob: bool = False
    shape: Shape = ANY_SHAPE
    splits: bool = False


UNKNOWN_WORD = ExpandedWord(None, splits=True)

_NO_WORD = ExpandedWord(None, shape=("",), splits=True)
"""The result of empty braces: an empty word in zsh, none in bash."""

_NUMBERS = word_set("? # $ RANDOM SECONDS LINENO UID EUID PPID BASHPID")
"""Variables whose values are digits."""

_KNOWN_PLAIN = word_set("PATH USER LOGNAME SHELL HOSTNAME LANG TERM")
"""Variables whose values are read here, only to check that they are one word and no pattern."""

READ_FROM_ENVIRONMENT = _NUMBERS | _KNOWN_PLAIN
"""Variables whose values this process and the shell of a command must have alike."""

_NOT_ONE_WORD = re.compile(r"[\s*?\[\\]|[@+!]\(|^$")
"""Values that a shell may split or match against names. With `extglob`, `@(x)` is a pattern too."""

_GLOB = re.compile(r"[*?]|\[[A-Za-z0-9_]+\]")
_WILD_PART = re.compile(r"([*?]|\[[A-Za-z0-9_]+\])")
_WILD = frozenset("*?[]\\")
_NOT_ALIKE = re.compile(r"[\^#~<>\[\\]")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*\+?=)(.*)", re.DOTALL)

_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")


def expand_word(word: Word, values: ShellVariables) -> list[ExpandedWord]:
    """Return the words that a command gets for a written one."""
    first = word.parts[0] if word.parts else None
    if (
        len(word.parts) == 1
        and isinstance(first, FixedText)
        and (first.quoted or _PLAIN_TEXT.fullmatch(first.text) is not None)
    ):
        return [_without_tilde(ExpandedWord(first.text))]
    alternatives = expand_braces(word.parts)
    if alternatives is None or (alternatives[0] != word.parts and _assigns_home(word)):
        return [UNKNOWN_WORD]
    return [_expand_parts(parts, values) if parts else _NO_WORD for parts in alternatives]


def expand_single(word: Word, values: ShellVariables) -> ExpandedWord:
    """Return the one word for a file or an operand. It is unknown where shells expand braces differently."""
    if expand_braces(word.parts) != [word.parts] or _assigns_home(word):
        return UNKNOWN_WORD
    return _expand_parts(word.parts, values) if word.parts else ExpandedWord("")


def assigned_value(word: Word, values: ShellVariables) -> str | None:
    """Return the text that an assignment gives to a variable, or None."""
    texts: list[str] = []
    for at, part in enumerate(word.parts):
        text = part.text if isinstance(part, FixedText) else None
        if isinstance(part, Variable):
            text = values.get(part.name)
        if text is not None and isinstance(part, FixedText) and not part.quoted and "~" in text:
            text = _home_in_value(text, values) if at == 0 and len(word.parts) == 1 else None
        if text is None:
            return None
        texts.append(text)
    return "".join(texts)


def has_braces(word: Word) -> bool:
    """Return True when braces may make several words of it."""
    return any(isinstance(part, FixedText) and not part.quoted and "{" in part.text for part in word.parts)


def _assigns_home(word: Word) -> bool:
    """Return True when it looks like an assignment of a home directory: after braces bash does not take it for one."""
    return any(isinstance(part, FixedText) and not part.quoted and "=~" in part.text for part in word.parts)


def _home_in_value(text: str, values: ShellVariables) -> str | None:
    if ":" in text or not values.home or (text != "~" and not text.startswith("~/")):
        return None if text.startswith("~") or ":~" in text else text
    return values.home + text[1:]


def _expand_parts(parts: Sequence[WordPart], values: ShellVariables) -> ExpandedWord:
    """Expand one word after its braces: tilde, variables, patterns."""
    pieces: list[tuple[str | None, bool]] = []  # text or None, and True for a part without quotes
    for part in parts:
        text = _part_text(part, values)
        if text is None and _may_split(part, values):
            return UNKNOWN_WORD
        pieces.append((text, isinstance(part, FixedText) and not part.quoted))
    at_home = _fill_home(pieces, values)
    if any(bare and text and ("*" in text or "?" in text or "[" in text) for text, bare in pieces):
        found = _expand_glob(pieces)
        found = found if values.matches_plainly or not found.glob else _uncertain_match(found)
    else:
        texts = [text for text, _ in pieces]
        whole = "".join(text or "" for text in texts)
        found = ExpandedWord(None, shape=_joined_shape(texts)) if None in texts else ExpandedWord(whole)
    # There bash replaces `~+` at the beginning by the working directory.
    if (
        pieces[0][0] is None
        and found.text is None
        and isinstance(parts[0], FixedText)
        and not parts[0].quoted
        and re.match(r"~\+(/|$)", parts[0].text) is not None
    ):
        # Not every shell replaces it, so the word stays unknown.
        here = values.get("PWD")
        found = replace(found, shape=_joined_shape([here, *found.shape[1:]])) if here is not None else found
    return found if at_home else _without_tilde(found)


def _without_tilde(field: ExpandedWord) -> ExpandedWord:
    """Return the word with a tilde that bash does not replace. `./~` means the same and is not the home directory."""
    if field.text is not None:
        return replace(field, text="./" + field.text) if field.text.startswith("~") else field
    first = field.shape[0] if field.shape else None
    return replace(field, shape=("./" + first, *field.shape[1:])) if first and first.startswith("~") else field


def _part_text(part: WordPart, values: ShellVariables) -> str | None:
    """Return the text of a part, when it is certain and one piece of a word."""
    if isinstance(part, FixedText):
        return part.text
    value = values.get(part.name) if isinstance(part, Variable) else None
    if value is not None and not part.quoted and (_NOT_ONE_WORD.search(value) or not values.splits_plainly):
        return None
    return value


def _may_split(part: WordPart, values: ShellVariables) -> bool:
    """Return True when an unknown part may become several words, or none."""
    if isinstance(part, FixedText | EncodedText):
        return False
    if isinstance(part, Substitution):
        return not part.quoted and not part.process
    if isinstance(part, Variable):
        if part.name in "@*":
            return True
        return not part.quoted and not (_is_one_word(part.name, values) and values.splits_plainly)
    if isinstance(part, Calculation):
        return not part.quoted and not values.splits_plainly
    return not part.quoted or not part.is_one_word


def _is_one_word(name: str, values: ShellVariables) -> bool:
    """Return True when a variable that the line does not set has a value without blanks and stars."""
    if values.is_set(name):
        return False
    return name in _NUMBERS or (name in _KNOWN_PLAIN and not _NOT_ONE_WORD.search(os.environ.get(name, "")))


def _fill_home(pieces: list[tuple[str | None, bool]], values: ShellVariables) -> bool:
    """Fill in the home directory and return True if the word begins with it; another leading tilde is unknown."""
    while len(pieces) > 1 and pieces[0] == ("", False) and (pieces[1][0] or "").startswith("~"):
        pieces[0:2] = [(None, False)]  # in zsh a tilde after empty quotes is the home directory
    text, bare = pieces[0]
    if text is None or not bare:
        return False
    assigned = _ASSIGNED.match(text)
    if assigned is not None and "~" in assigned[2]:
        _fill_assigned_home(pieces, assigned, values)
        return False
    if not text.startswith("~"):
        return False
    if values.home and (text.startswith("~/") or (text == "~" and len(pieces) == 1)):
        return True
    _, slash, rest = text.partition("/")
    pieces[0:1] = [(None, False), (slash + rest, True)]
    return False


def _fill_assigned_home(pieces: list[tuple[str | None, bool]], assigned: re.Match[str], values: ShellVariables) -> None:
    """Fill in the home of `if=~/x` as an argument, which bash takes for an assignment."""
    value = assigned[2]
    whole = value == "~" and len(pieces) == 1
    if values.home and (whole or value.startswith("~/")) and ":~" not in value:
        pieces[0] = (assigned[1] + values.home + value[1:], True)
    elif value.startswith("~") or ":~" in value:
        pieces[0:1] = [(assigned[1], False), (None, False)]


def _expand_glob(pieces: list[tuple[str | None, bool]]) -> ExpandedWord:
    """Expand a word with an unquoted star, question mark or bracket."""
    known = "".join(text or "" for text, _ in pieces)
    complete = all(text is not None for text, _ in pieces)
    if complete and "[" in known and "]" not in known[known.index("[") :] and not set(known) & set("*?"):
        return ExpandedWord(known)  # an unclosed bracket is a literal character
    mixed = any(not bare and text and set(text) & _WILD for text, bare in pieces)
    # The fixed texts of a pattern stay, with NUL for each matched or unknown part.
    fixed = "".join(_GLOB.sub("\0", text) if bare and text else text or "\0" for text, bare in pieces)
    odd = _NOT_ALIKE.search(fixed, 2 if fixed.startswith("~/") else 0)
    if complete and not mixed and odd is None and not _matches_dots(known):
        return ExpandedWord(known, glob=True)
    fixed = fixed if odd is None else fixed[: odd.start()] + "\0"
    return ExpandedWord(None, shape=_joined_shape([part or None for part in re.split("(\0)", fixed)]), splits=True)


def _uncertain_match(found: ExpandedWord) -> ExpandedWord:
    """Return a pattern that may match other names than usual."""
    parts = re.split(_WILD_PART, found.text or "")
    return ExpandedWord(
        None, shape=_joined_shape([None if _WILD_PART.fullmatch(part) else part for part in parts]), splits=True
    )


def _joined_shape(texts: Sequence[str | None]) -> Shape:
    """Return the shape with neighbouring texts joined, and neighbouring unknown parts joined."""
    shape: list[str | None] = []
    for unknown, group in groupby((text for text in texts if text != ""), key=lambda text: text in {None, "\0"}):
        shape.append(None if unknown else "".join(text for text in group if text))
    return tuple(shape)


def _matches_dots(pattern: str) -> bool:
    """Return True when it may match `.` or `..`, which bash before 5.2 lists."""
    parts = (part for part in pattern.split("/") if part.startswith(".") and set(part) & _WILD)
    return any(fnmatchcase(dots, part) for part in parts for dots in (".", ".."))


MAX_WORDS = 200
"""The most words that one word may become; beyond it they are unknown."""

MAX_BRACES = 20

_SEQUENCE = re.compile(r"(-?(?:0|[1-9][0-9]{0,5}))\.\.(-?(?:0|[1-9][0-9]{0,5}))")
_SEVERAL = re.compile(r",|\.\.")

BraceAtom = str | WordPart
"""One unquoted character, or a part that braces do not split."""


class _NotCertain(Exception):
    """The word has braces that shells expand differently, or too many."""


def expand_braces(parts: Sequence[WordPart]) -> list[tuple[WordPart, ...]] | None:
    """Return the words in order, each as its parts; None when they are not certain. A part may be empty."""
    bare = "".join(part.text for part in parts if isinstance(part, FixedText) and not part.quoted)
    if "{" not in bare or not _SEVERAL.search(bare):
        return [tuple(parts)]
    if bare.count("{") > MAX_BRACES:
        return None
    if any(
        isinstance(one, Variable) and one.name == "$" and isinstance(two, FixedText) and two.text.startswith("{")
        for one, two in pairwise(parts)
    ):
        return None  # `$${` opens no braces
    atoms: list[BraceAtom] = []
    for part in parts:
        atoms += part.text if isinstance(part, FixedText) and not part.quoted else [part]
    try:
        return [_join_atoms(one) for one in _expand_atoms(atoms)]
    except _NotCertain:
        return None


def _join_atoms(atoms: Sequence[BraceAtom]) -> tuple[WordPart, ...]:
    parts: list[WordPart] = []
    text = ""
    for atom in atoms:
        if isinstance(atom, str):
            text += atom
            continue
        parts += [FixedText(text)] if text else []
        parts.append(atom)
        text = ""
    return tuple(parts + ([FixedText(text)] if text else []))


def _expand_atoms(atoms: Sequence[BraceAtom]) -> list[list[BraceAtom]]:
    begin = next((at for at, atom in enumerate(atoms) if atom == "{"), None)
    if begin is None:
        if "}" in atoms:
            raise _NotCertain
        return [list(atoms)]
    before = list(atoms[:begin])
    choices, end = _brace_choices(atoms, begin)
    if "}" in before:
        raise _NotCertain
    found: list[list[BraceAtom]] = []
    after = _expand_atoms(atoms[end + 1 :])
    for choice in choices:
        for rest in after:
            found.append([*before, *choice, *rest])
            if len(found) > MAX_WORDS:
                raise _NotCertain
    return found


def _brace_choices(atoms: Sequence[BraceAtom], begin: int) -> tuple[list[list[BraceAtom]], int]:
    """Return the alternatives of the braces that open here, and their end."""
    depth = 0
    start = begin + 1
    pieces: list[Sequence[BraceAtom]] = []
    for at in range(begin, len(atoms)):
        atom = atoms[at]
        depth += {"{": 1, "}": -1}.get(atom, 0) if isinstance(atom, str) else 0
        if depth == 0 or (depth == 1 and atom == ","):
            pieces.append(atoms[start:at])
            start = at + 1
        if depth == 0:
            return _combine_pieces(pieces), at
    raise _NotCertain


def _combine_pieces(pieces: list[Sequence[BraceAtom]]) -> list[list[BraceAtom]]:
    if len(pieces) > 1:
        return [one for piece in pieces for one in _expand_atoms(piece)]
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


_SWALLOWED = re.compile(r"[^\x00-\x7f][\\|\[\]{}^~@`]")
_LOCALE = re.compile(r"LANG|LC_[A-Z]+")
_PLAIN_LOCALE = re.compile(r"(C|POSIX|(C|[a-z]{2,3}(_[A-Z]{2})?)\.(UTF-8|UTF8|utf8|utf-8)(@[a-z]+)?)?")
_SINGLE_BYTES = re.compile(r"[a-z]{2,3}(_[A-Z]{2})?\.ISO-?8859-?[0-9]+(@[a-z]+)?", re.IGNORECASE)


def may_lose_signs(text: str) -> bool:
    """Return True when a sign follows a character beyond ASCII, and may belong to it in another encoding."""
    return not text.isascii() and _SWALLOWED.search(text) is not None


def is_locale(name: str) -> bool:
    """Return True for a variable that sets the language, and with it the encoding."""
    return _LOCALE.fullmatch(name) is not None


def is_plain_locale(value: str) -> bool:
    """Return True for a locale whose encoding is UTF-8 or ASCII."""
    return _PLAIN_LOCALE.fullmatch(value) is not None


def has_odd_encoding() -> bool:
    """Return True when commands get an encoding in which characters may contain ASCII signs."""
    value = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return not (is_plain_locale(value) or _SINGLE_BYTES.fullmatch(value))
