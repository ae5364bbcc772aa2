"""The contents of a command's words: substituted commands, and variables that are read, set and declared.

Adds to the list of `parser`, which follows statements.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace

from teamwright.permissions.shell.ambiguity import RESERVED, is_code
from teamwright.permissions.shell.parsed_line import Directories, FileRedirect, ParsedLine, ShellCommand
from teamwright.permissions.shell.shell_variables import NAME, PLAIN_TESTS, ShellVariables, is_arithmetic
from teamwright.permissions.shell.syntax_tree import (
    Assignment,
    Calculation,
    EncodedText,
    Expansion,
    Redirection,
    SimpleCommand,
    StatementSequence,
    Substitution,
    TestCommand,
    Variable,
    Word,
    WordPart,
)
from teamwright.permissions.shell.word_expansion import ExpandedWord, assigned_value, expand_single
from teamwright.permissions.shell.working_directory import DIRECTORY_COMMANDS
from teamwright.permissions.shell.wrappers import RUN_BY_PROGRAMS, Words, WrappedCommands, evaluated_names, unwrap
from teamwright.protocol.values import dataclass

MAX_DEPTH = 8
"""The deepest nesting of texts (`bash -c "bash -c …"`). A deeper one is a doubt."""

MAX_STEPS = 3_000
"""The most statements for which loops are followed value by value. After that their values are unknown."""


@dataclass(slots=True)
class StepsLeft:
    """The number of statements that may still be followed for the values of loops."""

    left: int = MAX_STEPS


class CommandListing:
    """The list for one text, and the contents of its commands."""

    def __init__(
        self, parsed: ParsedLine, values: ShellVariables | None = None, depth: int = 0, steps: StepsLeft | None = None
    ) -> None:
        self.parsed = parsed
        self.values = values or ShellVariables()
        self.depth = depth
        self.steps = steps or StepsLeft()

    def list_text(self, text: str, places: Directories) -> None:
        """List the commands that this text would run."""
        raise NotImplementedError

    def nested_listing(self, parsed: ParsedLine, *, same_home: bool) -> CommandListing:
        """Return a list for the contents of a command.

        It starts with the variables that other shells inherit from this one.
        """
        values = self.values.in_subshell()
        values.home = values.home if same_home else ""
        return type(self)(parsed, values, self.depth + 1, self.steps)

    def add_doubt(self, why: str) -> None:
        """Note that something is not certain."""
        self.parsed.doubt = self.parsed.doubt or why

    def mark_unreadable(self, why: str) -> None:
        """Note that bash may run other commands, so that a deny rule cannot be excluded."""
        self.parsed.is_valid = False
        self.add_doubt(why)

    def list_command(self, command: ShellCommand) -> None:
        """List a command, and the commands that it would run in turn."""
        if command.words and command.words[0] in RESERVED:
            self.mark_unreadable("it has a part that is not looked into")
        if any(map(is_code, evaluated_names(command.words))):
            self.mark_unreadable("it has a text that is evaluated")
        wrapped = unwrap(command.words)
        if wrapped is None:
            self.parsed.commands.append(command)
            return
        if self.depth > MAX_DEPTH:
            return self.mark_unreadable("it is nested too deeply")
        if wrapped.opaque:
            self.mark_unreadable("it changes what the name of a command means")
        role = "wrap" if wrapped.clear and not command.globs else "unsure" if wrapped.guess else command.role
        role = "guess" if command.role == "guess" else role
        variables = command.variables + wrapped.variables
        self.parsed.commands.append(replace(command, variables=variables, role=role))
        if wrapped.file:
            self.parsed.commands.append(
                ShellCommand(wrapped.file, command.directories, variables=variables, role="guess")
            )
        self._add_inside(command, wrapped, variables)
        return None

    def _add_inside(self, command: ShellCommand, wrapped: WrappedCommands, variables: tuple[str, ...]) -> None:
        inner = self.nested_listing(self.parsed, same_home=wrapped.clear and "HOME" not in variables)
        first = len(self.parsed.commands)
        globbed = {command.words[at] for at in command.globs}
        guess = wrapped.guess or wrapped.proven or command.role == "guess"
        for words in wrapped.commands:
            globs = frozenset(at for at, word in enumerate(words) if word in globbed)
            unknown = frozenset(at for at, word in enumerate(words) if word is None)
            role = "guess" if guess else "run"
            inner.list_command(ShellCommand(words, command.directories, globs, variables, role, splits=unknown))
        if wrapped.script is not None and guess:
            self.list_guess(wrapped.script, command.directories, is_script=not wrapped.commands)
        elif wrapped.script is not None:
            inner.list_text(wrapped.script, command.directories)
        if any(found.name in DIRECTORY_COMMANDS for found in self.parsed.commands[first:]):
            self.add_doubt("it changes the directory in a rare way")

    def list_guess(self, text: str, places: Directories, *, is_script: bool = False) -> None:
        """List a text that may run as a command. A guess can only forbid.

        With `is_script` it is certainly a command, so an unreadable one may be any command.
        """
        aside = ParsedLine()
        if self.depth > MAX_DEPTH:
            return self.mark_unreadable("it is nested too deeply")
        self.nested_listing(aside, same_home=False).list_text(text, places)
        if aside.is_valid:
            self.parsed.commands += [replace(found, role="guess") for found in aside.commands]
            self.parsed.redirects += aside.redirects
        elif is_script:
            self.parsed.commands.append(ShellCommand((None,), places, role="guess"))
        return None


_READS = frozenset({"<", "<&", "<<<"})
_FILES = frozenset({"<", ">", ">>", "&>", "&>>", ">|", ">&", "<&"})
_DESCRIPTOR = re.compile(r"[0-9]*-?")
_DECLARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)?")
_TEST_OPERATOR = re.compile(r"-[A-Za-z]{1,2}")
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_SHELL_TABLES = frozenset({"BASH_ALIASES", "BASH_CMDS", "aliases", "functions", "commands", "galiases", "saliases"})
"""Arrays of shells that define the meaning of a command's name."""


class ExpansionListing(CommandListing):
    """The list for one text, as far as words are concerned."""

    def run(self, body: StatementSequence, places: Directories) -> None:
        """List the statements of a substitution."""
        raise NotImplementedError

    def list_names(self, words: Iterable[Word], places: Directories) -> None:
        """List the words of a loop or an array like those of a command: a pattern among them lists a directory."""
        raise NotImplementedError

    @contextmanager
    def separate_shell(self) -> Generator[None]:
        """Keep the variables unchanged by commands that run in a separate shell, or that may not run at all."""
        around, self.values = self.values, self.values.copy()
        yield
        self.values = around

    def list_word(self, word: Word | None, places: Directories) -> None:
        """List the commands in a word and the variables that it reads."""
        if word is not None:
            self.list_parts(word.parts, places)

    def list_parts(self, parts: Iterable[WordPart], places: Directories) -> None:
        """List the commands in parts of words."""
        for part in parts:
            if isinstance(part, Substitution):
                with self.separate_shell():
                    self.run(part.body, places)
            elif isinstance(part, Variable | Expansion):
                self._read(part.name)
            elif isinstance(part, Calculation) and part.is_uncertain:
                self._note_calculation("it calculates with variables, or may fail")
            if isinstance(part, Expansion) and not part.is_plain:
                self._note_calculation("it expands a variable in a rare way")
            if isinstance(part, Expansion | Calculation | EncodedText):
                self.list_parts(part.parts, places)

    def _read(self, name: str) -> None:
        if NAME.fullmatch(name) and name not in self.values.assigned:
            self.parsed.variables_read.add(name)

    def _note_calculation(self, why: str) -> None:
        self.add_doubt(why)
        self.parsed.evaluates = True

    def assign(self, assignment: Assignment, places: Directories) -> None:
        """List the commands in an assignment; programs may run its value."""
        self.list_word(assignment.value, places)
        self.list_names(assignment.items or (), places)
        for item in assignment.items or ():
            self.list_word(item, places)
            self.parsed.holds_code |= self._holds_code(item)
        if assignment.value is not None:
            self._check_value(assignment.name, assignment.value, places)
        if assignment.name in _SHELL_TABLES and (assignment.element is not None or assignment.items is not None):
            self.mark_unreadable("it changes what the name of a command means")
        if assignment.element is not None:
            self.add_doubt("it sets a part of a variable")
            if not (assignment.element.literal or "x").isdigit():
                self._note_calculation("it sets a part of a variable")

    def _check_value(self, name: str, value: Word, places: Directories) -> None:
        self.parsed.holds_code |= self._holds_code(value)
        text = assigned_value(value, self.values)
        if text and RUN_BY_PROGRAMS.search(name):
            self.list_guess(text.lstrip("|"), places)

    def _holds_code(self, word: Word) -> bool:
        text = assigned_value(word, self.values)
        return text is not None and is_code(text)

    def assign_alone(self, node: SimpleCommand, places: Directories) -> None:
        """List assignments without a command. They set variables of this shell from here on."""
        for assignment in node.assignments:
            value = None
            if assignment.value is not None and assignment.element is None and not assignment.adds:
                value = assigned_value(assignment.value, self.values)
            self.parsed.variables_set.add(assignment.name)
            self.values.assign(assignment.name, None if node.redirections else value)
            if not (node.redirections or assignment.adds or assignment.element):
                self.values.assigned |= {assignment.name}

    def declare(self, node: SimpleCommand, fields: list[ExpandedWord], places: Directories) -> None:
        """List `export`, `declare`, `unset` and the like. Without a name they print every variable, secrets too."""
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
            self.add_doubt("it declares variables in a rare way")
            self.parsed.evaluates = True
            self.parsed.holds_code |= any(field.text is not None and is_code(field.text) for field in fields)
        if name == "unset" and any(is_code(word) for word in written[1:]):
            self.mark_unreadable("it has a text that is evaluated")
        self.parsed.commands.append(ShellCommand(written, places, role="wrap" if plain else "run"))

    def _declared(self, builtin: str, name: str, valued: bool) -> None:
        """Note a variable of a declaration; one without a value sets none, but may export one."""
        if valued:
            self.parsed.variables_set.add(name)
        elif builtin == "readonly":
            self._read(name)  # its value from the environment is kept
        if builtin == "export":
            self.parsed.variables_exported.add(name)

    def _check_declared(self, name: str, word: Word, field: ExpandedWord, places: Directories) -> None:
        value = (field.text or "").partition("=")[2]
        self.parsed.holds_code |= is_code(value)
        if RUN_BY_PROGRAMS.search(name):
            self.list_guess(value.lstrip("|"), places)

    def test(self, node: TestCommand, places: Directories) -> tuple[Directories, Directories]:
        """List `[[ … ]]`, which runs nothing unless it calculates or expands something that does."""
        words: list[str | None] = []
        for item in node.items:
            if is_arithmetic(item):
                self._note_calculation("it has a test that calculates")
            if isinstance(item, str):
                words.append(item)
                continue
            self.list_word(item, places)
            self.parsed.holds_code |= self._holds_code(item)
            words.append(expand_single(item, self.values).text)
        self.parsed.commands.append(ShellCommand(("[[", *words, "]]"), places))
        return places, places

    def check_test(self, words: Words) -> None:
        """Check `[ … ]` and `test` as commands: zsh evaluates compared numbers."""
        for at, word in enumerate(words):
            if word is None or not _TEST_OPERATOR.fullmatch(word) or word in PLAIN_TESTS:
                continue
            operands = (words[at - 1], words[at + 1] if at + 1 < len(words) else None)
            if word not in _NUMERIC or not all(operand is not None and operand.isdigit() for operand in operands):
                self._note_calculation("it has a test that calculates")
                self.parsed.holds_code |= any(word is not None and is_code(word) for word in words)

    def redirect(self, node: Redirection, places: Directories) -> None:
        """List the file that a redirection opens."""
        self.list_word(node.target, places)
        self.list_parts(node.body, places)
        if node.sign in {"<<", "<<-", "<<<"}:
            return
        if node.sign not in _FILES:
            return self.add_doubt("it redirects in a rare way")
        field = expand_single(node.target, self.values)
        if node.sign in {">&", "<&"} and field.text is not None and _DESCRIPTOR.fullmatch(field.text):
            return None
        self.parsed.redirects.append(FileRedirect(field.text, node.sign not in _READS, places, field.glob, field.shape))
        return None
