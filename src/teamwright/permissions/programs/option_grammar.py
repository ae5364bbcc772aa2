"""The arguments of one program, parsed as getopt does by a grammar that names every accepted option.

Depends on nothing but words. `grammars` holds the grammars; what an argument means to a program is decided there.

A grammar is `OPERANDS option option …`. OPERANDS is `FILES` (all are read), `DIRS` (the same, by default the current
directory), `PATTERN` (a text, then files), `TEXTS` or `NONE`; `<N` after it bounds their number. An option is spelled
exactly, and its sign says which value it takes:

    -q  --quiet   no value
    -n= --lines=  a text: the next word, or attached
    -n=N          the same, and only a number
    -r=FILE       a file that is read
    -o=?          a text that another system takes for an operand, so it is judged as a file too
    --context:=   a text that must be attached, because systems disagree about the next word
    --color[=]    a text that may be attached
    --arg=2       two texts, which are the next two words
    -NUM          a number alone, as in `head -20`
    WORDS         no clusters and no attached values: `-pl` is not `-p -l`
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct

_OPTION = re.compile(r"(?P<name>--?[^=:\[]+)(?P<sign>\[=\]|:=|=)?(?P<kind>FILE|N|2|\?)?")
_OPERANDS = re.compile(r"(?P<kind>[A-Z]+)(?:<(?P<most>\d+))?")
_NUMBER = re.compile(r"[-+]?\d+[a-zA-Z]{0,2}")
_AFTER_OPTION = re.compile(r"-\d*")
"""Values that no program takes for an option. Any other value with a dash must be attached."""

_UNLIMITED = 10_000


class OptionValue(Struct, frozen=True):
    """The value of an option.

    `sign` is the grammar's `=`, `:=` or `[=]`; `kind` is FILE, N, 2, ? or empty for a text.
    """

    sign: str = ""
    kind: str = ""


class OptionGrammar(Struct, frozen=True):
    """All options of one program, and its operands. `max_operands` limits their number."""

    operands: str
    max_operands: int
    options: Mapping[str, OptionValue]
    numbers: bool = False
    words: bool = False

    @property
    def is_ordered(self) -> bool:
        """True when the position of an operand matters, so that no option may follow an operand."""
        return self.max_operands < _UNLIMITED


class ParsedArguments(Struct, frozen=True):
    """The parsed arguments. `options` are names with their values, in order.

    `files` are read besides the operands: values of options, and words that are operands on systems whose options end
    at the first operand. `is_mixed`: there are such words.
    """

    options: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    files: tuple[str, ...] = ()
    is_mixed: bool = False

    def has(self, *names: str) -> bool:
        """Return True when one of the options was given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        """Return the values of these options, in order."""
        return [value for name, value in self.options if name in names]


@cache
def parse_grammar(text: str) -> OptionGrammar:
    """Parse the grammar of a program. Raises ValueError for an option that the notation does not explain."""
    first, *rest = text.split()
    operands = _OPERANDS.fullmatch(first)
    if operands is None:
        raise ValueError(f"no operands in {text!r}")
    flags = {"-NUM", "WORDS"} & set(rest)
    options: dict[str, OptionValue] = {}
    for word in rest:
        if word not in flags:
            option = _OPTION.fullmatch(word)
            if option is None or option["name"] in options:
                raise ValueError(f"the option {word!r} is not explained")
            options[option["name"]] = OptionValue(option["sign"] or "", option["kind"] or "")
    most = int(operands["most"] or _UNLIMITED)
    return OptionGrammar(operands["kind"], most, options, "-NUM" in flags, "WORDS" in flags)


def parse_arguments(args: Sequence[str], grammar: OptionGrammar) -> ParsedArguments | None:
    """Parse the arguments of a program, or return None when one of them is not explained by the grammar.

    Options may follow operands, as in GNU programs. Systems whose options end at the first operand take such words
    for operands, so they are listed as files too, or refused where the number of operands is bounded.
    """
    reader = _Reader(list(args), grammar)
    while reader.at < len(reader.args):
        if not reader.step():
            return None
    if len(reader.operands) > grammar.max_operands:
        return None
    return ParsedArguments(
        tuple(reader.options), tuple(reader.operands), tuple(dict.fromkeys(reader.files)), reader.mixed
    )


class _Reader:
    """One pass over the arguments."""

    def __init__(self, args: list[str], by: OptionGrammar) -> None:
        self.args = args
        self.by = by
        self.at = 0
        self.options: list[tuple[str, str]] = []
        self.operands: list[str] = []
        self.files: list[str] = []
        self.after = False  # True after an operand
        self.mixed = False

    def step(self) -> bool:
        """Parse the next word with its values; return False when it is not explained."""
        word = self.args[self.at]
        self.at += 1
        start = self.at - 1
        if word == "--":
            self.operands += self.args[self.at :]
            self.at = len(self.args)
        elif not word.startswith("-") or word == "-":
            self.operands.append(word)
            self.after = True
            return True
        elif not self.option(word):
            return False
        if self.after:
            self.mixed = True
            self.files += self.args[start : self.at]
        return not self.mixed or not self.by.is_ordered

    def option(self, word: str) -> bool:
        if self.by.numbers and word[1:].isdecimal():
            self.options.append(("-NUM", word[1:]))
            return True
        if self.by.words:
            return self.valued(word, None)
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            return self.valued(name, value if equals else None)
        for at, letter in enumerate(word[1:], 2):
            name, rest = f"-{letter}", word[at:]
            found = self.by.options.get(name)
            if found is None:
                return False
            if found.sign:
                return self.valued(name, rest or None)
            self.options.append((name, ""))
        return True

    def valued(self, name: str, value: str | None) -> bool:
        """Add an option with the value that is attached to it, or with the next words."""
        found = self.by.options.get(name)
        if found is None or (value is not None and not found.sign):
            return False
        if value is None and found.sign == "=":
            for _ in range(2 if found.kind == "2" else 1):
                if self.at == len(self.args):
                    return False
                value = self.args[self.at]
                self.at += 1
                if value.startswith("-") and not _AFTER_OPTION.fullmatch(value):
                    return False
        elif value is None and found.sign == ":=":
            return False
        if value is not None and found.kind in {"FILE", "?"}:
            if value.startswith("~"):
                return False  # bash replaces a tilde only at the start of a word
            self.files.append(value)
        self.options.append((name, value or ""))
        return found.kind != "N" or _NUMBER.fullmatch(value or "") is not None
