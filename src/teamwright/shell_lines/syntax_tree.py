"""The syntax tree of a shell line: words in parts, commands, redirections and operators.

Created by `grammar`, walked by `parse`.
"""

from __future__ import annotations

from msgspec import Struct, field


class FixedText(Struct, frozen=True):
    """A fixed piece of a word, without its quotes."""

    text: str
    quoted: bool = False


class Variable(Struct, frozen=True):
    """A plain `$name` or `${name}`."""

    name: str
    quoted: bool = False


class Expansion(Struct, frozen=True):
    """An expansion `${name…}` with an operator. `is_plain`: only its operand decides which commands may run.

    `is_one_word`: between double quotes it becomes exactly one word.
    """

    name: str
    parts: tuple[WordPart, ...] = ()
    quoted: bool = False
    is_plain: bool = True
    is_one_word: bool = True


class Calculation(Struct, frozen=True):
    """An arithmetic expansion `$((…))`.

    `is_uncertain`: it reads variables, whose values are evaluated too, or it may fail.
    """

    parts: tuple[WordPart, ...] = ()
    quoted: bool = False
    is_uncertain: bool = False


class Substitution(Struct, frozen=True):
    """A substitution `$(…)`, backticks, or with `process` `<(…)` and `>(…)`."""

    body: StatementSequence
    quoted: bool = False
    process: bool = False


class EncodedText(Struct, frozen=True):
    """A `$'…'` with a rare escape, or `$"…"`: its text is not computed. `parts` are its expansions."""

    parts: tuple[WordPart, ...] = ()
    quoted: bool = True


WordPart = FixedText | Variable | Expansion | Calculation | Substitution | EncodedText


class Word(Struct, frozen=True):
    """A word as it is written: its parts, and its start position."""

    parts: tuple[WordPart, ...]
    start: int = 0

    @property
    def literal(self) -> str | None:
        """The word if no part of it is quoted or expanded."""
        one = self.parts[0] if len(self.parts) == 1 else None
        return one.text if isinstance(one, FixedText) and not one.quoted else None


class Assignment(Struct, frozen=True):
    """An assignment `name=value`, `name+=value`, `name[…]=value`, or with `items` `name=(…)`."""

    name: str
    value: Word | None = None
    items: tuple[Word, ...] | None = None
    adds: bool = False
    element: Word | None = None


class Redirection(Struct, frozen=True):
    """An operator and its word; for a here-document `body` has its expansions."""

    sign: str
    target: Word
    body: list[WordPart] = field(default_factory=list["WordPart"])


class SimpleCommand(Struct, frozen=True):
    """A simple command. Arrays in a declaration (`declare a=(…)`) are in `assignments` too."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()


class TestCommand(Struct, frozen=True):
    """A test `[[ … ]]`: its words, and its operators as texts."""

    items: tuple[Word | str, ...]


class CalculateCommand(Struct, frozen=True):
    """A command `((…))`."""

    calculation: Calculation


class Pipeline(Struct, frozen=True):
    """Commands joined by `|`; each runs in a separate shell."""

    commands: tuple[Statement, ...]


class NegatedCommand(Struct, frozen=True):
    """A command or pipeline after `!`, which succeeds when its body fails."""

    body: Statement


class AndOr(Struct, frozen=True):
    """Statements joined by `&&` and `||`. `signs` is true for each after the first that follows `&&`."""

    items: tuple[Statement, ...]
    signs: tuple[bool, ...]


class StatementSequence(Struct, frozen=True):
    """Consecutive statements; those at the indexes in `background` run in the background (`&`)."""

    items: tuple[Statement, ...]
    background: frozenset[int] = frozenset()


class Subshell(Struct, frozen=True):
    """A subshell `( … )`."""

    body: StatementSequence


class BranchCommand(Struct, frozen=True):
    """An `if` or `case`: `always` runs in order until one fits, then one of the bodies or none.

    `words` are the word and the patterns of `case`.
    """

    always: tuple[StatementSequence, ...]
    bodies: tuple[StatementSequence, ...]
    words: tuple[Word, ...] = ()


class WhileLoop(Struct, frozen=True):
    """A `while` or `until` loop."""

    test: StatementSequence
    body: StatementSequence


class ForLoop(Struct, frozen=True):
    """A `for name in words`, or with `is_select` a `select`; `words` are None without `in`.

    `head` has the three expressions of `for ((…;…;…))`; then there is no name.
    """

    name: str
    words: tuple[Word, ...] | None
    body: StatementSequence
    is_select: bool = False
    head: Calculation | None = None


class FunctionDefinition(Struct, frozen=True):
    """The definition of a function."""

    name: str
    body: Statement


class RedirectedCommand(Struct, frozen=True):
    """A compound command with redirections."""

    body: Statement
    redirections: tuple[Redirection, ...]


Statement = (
    SimpleCommand
    | TestCommand
    | CalculateCommand
    | Pipeline
    | NegatedCommand
    | AndOr
    | StatementSequence
    | Subshell
    | BranchCommand
    | WhileLoop
    | ForLoop
    | FunctionDefinition
    | RedirectedCommand
)
