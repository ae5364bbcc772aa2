"""The syntax tree of a shell line: words in parts, commands, redirections and what joins them.

Made by `grammar`, walked by `parse`. Knows nothing of programs and runs nothing.
"""

from __future__ import annotations

from dataclasses import field

from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class FixedText:
    """A fixed piece of a word, without its quotes."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name` or `${name}`: the value of a variable as it is."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Expansion:
    """`${name…}` that does more than give the value. `plain`: only its operand decides what may run.

    `one`: between double quotes it makes exactly one word.
    """

    name: str
    parts: tuple[WordPart, ...] = ()
    quoted: bool = False
    is_plain: bool = True
    is_one_word: bool = True


@dataclass(frozen=True, slots=True)
class Calculation:
    """`$((…))`. `unsure`: it reads variables, whose values are calculated in turn, or it may fail."""

    parts: tuple[WordPart, ...] = ()
    quoted: bool = False
    is_uncertain: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(…)`, backticks, or with `process` `<(…)` and `>(…)`."""

    body: StatementSequence
    quoted: bool = False
    process: bool = False


@dataclass(frozen=True, slots=True)
class EncodedText:
    """`$'…'` with a backslash, or `$"…"`: a text that is not looked up. `parts` are what is filled in there."""

    parts: tuple[WordPart, ...] = ()
    quoted: bool = True


WordPart = FixedText | Variable | Expansion | Calculation | Substitution | EncodedText


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is written: its parts, and where it begins."""

    parts: tuple[WordPart, ...]
    start: int = 0

    @property
    def literal(self) -> str | None:
        """The word if no part of it is quoted or filled in."""
        one = self.parts[0] if len(self.parts) == 1 else None
        return one.text if isinstance(one, FixedText) and not one.quoted else None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, `name+=value`, `name[…]=value`, or with `items` `name=(…)`."""

    name: str
    value: Word | None = None
    items: tuple[Word, ...] | None = None
    adds: bool = False
    element: Word | None = None


@dataclass(frozen=True, slots=True)
class Redirection:
    """An operator and its word; for a here-document `body` is what is filled in there."""

    sign: str
    target: Word
    body: list[WordPart] = field(default_factory=list["WordPart"])


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command. Arrays given to a declaration (`declare a=(…)`) are in `assignments` too."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True)
class TestCommand:
    """`[[ … ]]`: its words, and its signs as texts."""

    items: tuple[Word | str, ...]


@dataclass(frozen=True, slots=True)
class CalculateCommand:
    """`((…))` as a command."""

    calculation: Calculation


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by `|`: each runs in a shell of its own."""

    commands: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class AndOr:
    """Statements joined by `&&` and `||`. `signs` has for each after the first whether it follows `&&`."""

    items: tuple[Statement, ...]
    signs: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class StatementSequence:
    """Statements after one another; those at the indexes in `aside` run beside the rest (`&`)."""

    items: tuple[Statement, ...]
    background: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Subshell:
    """`( … )`."""

    body: StatementSequence


@dataclass(frozen=True, slots=True)
class BranchCommand:
    """`if` and `case`: `always` runs in order until one fits, then one of the bodies or none.

    `words` are the word and the patterns of `case`.
    """

    always: tuple[StatementSequence, ...]
    bodies: tuple[StatementSequence, ...]
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class WhileLoop:
    """`while` and `until`."""

    test: StatementSequence
    body: StatementSequence


@dataclass(frozen=True, slots=True)
class ForLoop:
    """`for name in words`, or with `picks` `select`; `words` are None without `in`.

    `head` has the three calculations of `for ((…;…;…))`; then there is no name.
    """

    name: str
    words: tuple[Word, ...] | None
    body: StatementSequence
    is_select: bool = False
    head: Calculation | None = None


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """The definition of a function."""

    name: str
    body: Statement


@dataclass(frozen=True, slots=True)
class RedirectedCommand:
    """A compound command with redirections."""

    body: Statement
    redirections: tuple[Redirection, ...]


Statement = (
    SimpleCommand
    | TestCommand
    | CalculateCommand
    | Pipeline
    | AndOr
    | StatementSequence
    | Subshell
    | BranchCommand
    | WhileLoop
    | ForLoop
    | FunctionDefinition
    | RedirectedCommand
)
