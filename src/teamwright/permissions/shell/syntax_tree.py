"""The syntax tree of a shell line: words in parts, commands, redirections and operators.

Created by `grammar`, walked by `parser`.
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
    """A plain `$name` or `${name}`."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Expansion:
    """An expansion `${name…}` with an operator. `is_plain`: only its operand decides which commands may run.

    `is_one_word`: between double quotes it becomes exactly one word.
    """

    name: str
    parts: tuple[WordPart, ...] = ()
    quoted: bool = False
    is_plain: bool = True
    is_one_word: bool = True


@dataclass(frozen=True, slots=True)
class Calculation:
    """An arithmetic expansion `$((…))`.

    `is_uncertain`: it reads variables, whose values are evaluated too, or it may fail.
    """

    parts: tuple[WordPart, ...] = ()
    quoted: bool = False
    is_uncertain: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """A substitution `$(…)`, backticks, or with `process` `<(…)` and `>(…)`."""

    body: StatementSequence
    quoted: bool = False
    process: bool = False


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A `$'…'` with a rare escape, or `$"…"`: its text is not computed. `parts` are its expansions."""

    parts: tuple[WordPart, ...] = ()
    quoted: bool = True


WordPart = FixedText | Variable | Expansion | Calculation | Substitution | EncodedText


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is written: its parts, and its start position."""

    parts: tuple[WordPart, ...]
    start: int = 0

    @property
    def literal(self) -> str | None:
        """The word if no part of it is quoted or expanded."""
        one = self.parts[0] if len(self.parts) == 1 else None
        return one.text if isinstance(one, FixedText) and not one.quoted else None


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment `name=value`, `name+=value`, `name[…]=value`, or with `items` `name=(…)`."""

    name: str
    value: Word | None = None
    items: tuple[Word, ...] | None = None
    adds: bool = False
    element: Word | None = None


@dataclass(frozen=True, slots=True)
class Redirection:
    """An operator and its word; for a here-document `body` has its expansions."""

    sign: str
    target: Word
    body: list[WordPart] = field(default_factory=list["WordPart"])


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command. Arrays in a declaration (`declare a=(…)`) are in `assignments` too."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True)
class TestCommand:
    """A test `[[ … ]]`: its words, and its operators as texts."""

    items: tuple[Word | str, ...]


@dataclass(frozen=True, slots=True)
class CalculateCommand:
    """A command `((…))`."""

    calculation: Calculation


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by `|`; each runs in a separate shell."""

    commands: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class AndOr:
    """Statements joined by `&&` and `||`. `signs` is true for each after the first that follows `&&`."""

    items: tuple[Statement, ...]
    signs: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class StatementSequence:
    """Consecutive statements; those at the indexes in `background` run in the background (`&`)."""

    items: tuple[Statement, ...]
    background: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Subshell:
    """A subshell `( … )`."""

    body: StatementSequence


@dataclass(frozen=True, slots=True)
class BranchCommand:
    """An `if` or `case`: `always` runs in order until one fits, then one of the bodies or none.

    `words` are the word and the patterns of `case`.
    """

    always: tuple[StatementSequence, ...]
    bodies: tuple[StatementSequence, ...]
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class WhileLoop:
    """A `while` or `until` loop."""

    test: StatementSequence
    body: StatementSequence


@dataclass(frozen=True, slots=True)
class ForLoop:
    """A `for name in words`, or with `is_select` a `select`; `words` are None without `in`.

    `head` has the three expressions of `for ((…;…;…))`; then there is no name.
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
