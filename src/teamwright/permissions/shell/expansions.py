"""What is in the words of a command: commands that are substituted, variables that are read, set and declared.

Adds to the list of `listing`. Statements are followed by `walk`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from teamwright.permissions.shell.listing import Listing
from teamwright.permissions.shell.misread import is_code
from teamwright.permissions.shell.parsed import Command, Places, Redirect
from teamwright.permissions.shell.syntax import (
    Assignment,
    Calculation,
    Encoded,
    Expansion,
    Part,
    Redirection,
    Sequence,
    Simple,
    Substitution,
    Test,
    Variable,
    Word,
)
from teamwright.permissions.shell.values import NAME, PLAIN_TESTS, calculates
from teamwright.permissions.shell.words import Field, field_of, value_of
from teamwright.permissions.shell.wrappers import RUN_BY_PROGRAMS, Words

_READS = frozenset({"<", "<&", "<<<"})
_FILES = frozenset({"<", ">", ">>", "&>", "&>>", ">|", ">&", "<&"})
_DESCRIPTOR = re.compile(r"[0-9]*-?")
_DECLARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)?")
_TEST_OPERATOR = re.compile(r"-[A-Za-z]{1,2}")
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_SHELL_TABLES = frozenset({"BASH_ALIASES", "BASH_CMDS", "aliases", "functions", "commands", "galiases", "saliases"})
"""Arrays of shells that say what the name of a command means."""


class Expansions(Listing):
    """The list being made, as far as words go."""

    def run(self, body: Sequence, places: Places) -> None:
        """List the statements of a substitution."""
        raise NotImplementedError

    def list_names(self, words: Iterable[Word], places: Places) -> None:
        """List the words of a loop or an array as those of a command: a pattern among them lists a directory."""
        raise NotImplementedError

    @contextmanager
    def apart(self) -> Generator[None]:
        """What runs in a shell of its own, or perhaps not at all, leaves the variables as they are."""
        around, self.values = self.values, self.values.copy()
        yield
        self.values = around

    def look_into(self, word: Word | None, places: Places) -> None:
        """Look through a word for commands in it and for variables that it reads."""
        if word is not None:
            self.look_through(word.parts, places)

    def look_through(self, parts: Iterable[Part], places: Places) -> None:
        """Look through parts of words."""
        for part in parts:
            if isinstance(part, Substitution):
                with self.apart():
                    self.run(part.body, places)
            elif isinstance(part, Variable | Expansion):
                self._read(part.name)
            elif isinstance(part, Calculation) and part.unsure:
                self._calculates("it calculates with variables, or may fail")
            if isinstance(part, Expansion) and not part.plain:
                self._calculates("it expands a variable in a rare way")
            if isinstance(part, Expansion | Calculation | Encoded):
                self.look_through(part.parts, places)

    def _read(self, name: str) -> None:
        if NAME.fullmatch(name) and name not in self.values.assigned:
            self.parsed.reads.add(name)

    def _calculates(self, why: str) -> None:
        self.doubt(why)
        self.parsed.evaluates = True

    def assign(self, assignment: Assignment, places: Places) -> None:
        """Look through an assignment; its value may be run by programs."""
        self.look_into(assignment.value, places)
        self.list_names(assignment.items or (), places)
        for item in assignment.items or ():
            self.look_into(item, places)
            self.parsed.holds_code |= self._holds_code(item)
        if assignment.value is not None:
            self._check_value(assignment.name, assignment.value, places)
        if assignment.name in _SHELL_TABLES and (assignment.element is not None or assignment.items is not None):
            self.unreadable("it changes what the name of a command means")
        if assignment.element is not None:
            self.doubt("it sets a part of a variable")
            if not (assignment.element.literal or "x").isdigit():
                self._calculates("it sets a part of a variable")

    def _check_value(self, name: str, value: Word, places: Places) -> None:
        self.parsed.holds_code |= self._holds_code(value)
        text = value_of(value, self.values)
        if text and RUN_BY_PROGRAMS.search(name):
            self.guessed(text.lstrip("|"), places)

    def _holds_code(self, word: Word) -> bool:
        text = value_of(word, self.values)
        return text is not None and is_code(text)

    def assign_alone(self, node: Simple, places: Places) -> None:
        """Assignments that are no command's: their variables are the shell's own from here on."""
        for assignment in node.assignments:
            value = None
            if assignment.value is not None and assignment.element is None and not assignment.adds:
                value = value_of(assignment.value, self.values)
            self.parsed.sets.add(assignment.name)
            self.values.assign(assignment.name, None if node.redirections else value)
            if not (node.redirections or assignment.adds or assignment.element):
                self.values.assigned |= {assignment.name}

    def declare(self, node: Simple, fields: list[Field], places: Places) -> None:
        """`export`, `declare`, `unset` and the like. Without a name they print every variable, secrets too."""
        name = fields[0].text or ""
        written = tuple(field.text for field in fields)
        plain = name in {"export", "local", "readonly", "unset"} and len(node.words) + len(node.assignments) > 1
        for word, field in zip(node.words[1:], fields[1:], strict=False):
            found = _DECLARED.match(field.text or "")
            if found is None or (found.end() < len(field.text or "") and not found[2]):
                plain = False
                continue
            self._declared(name, found[1], valued=bool(found[2]) or name == "unset")
            if found[2] == "=" and name in {"export", "readonly"} and not node.redirections:
                self.values.assigned |= {found[1]}
            if found[2]:
                self._check_declared(found[1], word, field, places)
        for assignment in node.assignments:
            self._declared(name, assignment.name, valued=True)
        if not plain or len(fields) != len(node.words):
            self.doubt("it declares variables in a rare way")
            self.parsed.evaluates = True
            self.parsed.holds_code |= any(field.text is not None and is_code(field.text) for field in fields)
        if name == "unset" and any(is_code(word) for word in written[1:]):
            self.unreadable("it has a text that is evaluated")
        self.parsed.commands.append(Command(written, places, role="wrap" if plain else "run"))

    def _declared(self, builtin: str, name: str, valued: bool) -> None:
        """Note a variable of a declaration; one without a value sets none, but may export one."""
        if valued:
            self.parsed.sets.add(name)
        elif builtin == "readonly":
            self._read(name)  # what it has from the environment it will keep
        if builtin == "export":
            self.parsed.exports.add(name)

    def _check_declared(self, name: str, word: Word, field: Field, places: Places) -> None:
        value = (field.text or "").partition("=")[2]
        self.parsed.holds_code |= is_code(value)
        if RUN_BY_PROGRAMS.search(name):
            self.guessed(value.lstrip("|"), places)

    def test(self, node: Test, places: Places) -> tuple[Places, Places]:
        """`[[ … ]]` runs nothing, unless it calculates or expands something that does."""
        words: list[str | None] = []
        for item in node.items:
            if calculates(item):
                self._calculates("it has a test that calculates")
            if isinstance(item, str):
                words.append(item)
                continue
            self.look_into(item, places)
            self.parsed.holds_code |= self._holds_code(item)
            words.append(field_of(item, self.values).text)
        self.parsed.commands.append(Command(("[[", *words, "]]"), places))
        return places, places

    def check_test(self, words: Words) -> None:
        """`[ … ]` and `test` as commands: zsh calculates what is compared as numbers."""
        for at, word in enumerate(words):
            if word is None or not _TEST_OPERATOR.fullmatch(word) or word in PLAIN_TESTS:
                continue
            operands = (words[at - 1], words[at + 1] if at + 1 < len(words) else None)
            if word not in _NUMERIC or not all(operand is not None and operand.isdigit() for operand in operands):
                self._calculates("it has a test that calculates")
                self.parsed.holds_code |= any(word is not None and is_code(word) for word in words)

    def redirect(self, node: Redirection, places: Places) -> None:
        """List the file that a redirection opens."""
        self.look_into(node.target, places)
        self.look_through(node.body, places)
        if node.sign in {"<<", "<<-", "<<<"}:
            return
        if node.sign not in _FILES:
            return self.doubt("it redirects in a rare way")
        field = field_of(node.target, self.values)
        if node.sign in {">&", "<&"} and field.text is not None and _DESCRIPTOR.fullmatch(field.text):
            return None
        self.parsed.redirects.append(Redirect(field.text, node.sign not in _READS, places, field.glob, field.shape))
        return None
