"""The commands that a command runs in turn, and the contents of its words, as a list with their working directories.

Words may contain substituted commands, and variables that are read, set and declared. The working directory follows
`cd`. Read-only. `parse` follows the statements and makes the list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.shell_lines.ambiguity import RESERVED, is_code, may_become_code
from teamwright.shell_lines.command_words import Words, word_set
from teamwright.shell_lines.evaluated_text import (
    INTEGER_VARIABLES,
    READ_BY_SHELLS,
    RUN_BY_PROGRAMS,
    evaluated_names,
    evaluates_values,
    has_subscript,
)
from teamwright.shell_lines.expansion import (
    UNKNOWN_WORD,
    ExpandedWord,
    assigned_value,
    expand_single,
    expand_word,
    has_braces,
)
from teamwright.shell_lines.matching_names import is_pattern, matching_names
from teamwright.shell_lines.parsed_line import Directories, FileRedirect, ParsedLine, ShellCommand
from teamwright.shell_lines.plain_values import is_plain_value
from teamwright.shell_lines.step_limit import spend_steps
from teamwright.shell_lines.syntax_tree import (
    Assignment,
    Calculation,
    EncodedText,
    Expansion,
    FixedText,
    ForLoop,
    Redirection,
    SimpleCommand,
    StatementSequence,
    Substitution,
    TestCommand,
    Variable,
    Word,
    WordPart,
)
from teamwright.shell_lines.variables import NAME, PLAIN_TESTS, ShellVariables, is_arithmetic
from teamwright.shell_lines.wrapped_commands import WrappedCommands, may_move, run_by_options
from teamwright.shell_lines.wrappers import unwrap
from teamwright.storage.real_paths import real_path

MAX_DEPTH = 8
"""The deepest nesting of texts (`bash -c "bash -c …"`). A deeper one is a doubt."""

MAX_LISTED = 2_000
"""The most commands of a line that are judged."""

_STORES_WORDS = {("set",), ("printf",)}
"""Builtins that may store their words in variables."""

_TAKES_INPUT = {("read",), ("mapfile",), ("readarray",), ("xargs",)}
"""Commands that read a text for variables or for words."""

MAX_STEPS = 3_000
"""The most statements for which loops are followed value by value. After that their values are unknown."""


class StepsLeft(Struct):
    """The number of statements that may still be followed for the values of loops."""

    left: int = MAX_STEPS


class ListingState:
    """The list of a text that is being made, the variables at the current position, and what is left of the limits."""

    def __init__(
        self, parsed: ParsedLine, values: ShellVariables | None = None, depth: int = 0, steps: StepsLeft | None = None
    ) -> None:
        self.parsed = parsed
        self.values = values or ShellVariables()
        self.depth = depth
        self.steps = steps or StepsLeft()

    def nested(self, parsed: ParsedLine, *, same_home: bool) -> ListingState:
        """Return the state for the contents of a command, with the variables that another shell inherits."""
        values = self.values.in_subshell()
        values.home = values.home if same_home else ""
        return ListingState(parsed, values, self.depth + 1, self.steps)

    @contextmanager
    def separate_shell(self) -> Generator[None]:
        """Keep the variables unchanged by commands that run in a separate shell, or that may not run at all."""
        around, self.values = self.values, self.values.copy()
        yield
        self.values = around

    def add_doubt(self, why: str) -> None:
        """Note that something is not certain."""
        self.parsed.doubt = self.parsed.doubt or why

    def mark_unreadable(self, why: str) -> None:
        """Note that bash may run other commands, so that a deny rule cannot be excluded."""
        self.parsed.is_valid = False
        self.add_doubt(why)


class CommandListing:
    """Lists commands, and the commands that they run. `list_text` lists those of a text in another state."""

    def __init__(self, state: ListingState, list_text: Callable[[ListingState, str, Directories], None]) -> None:
        self.state = state
        self._list_text = list_text

    def list_command(self, command: ShellCommand) -> None:
        """List a command, and the commands that it would run in turn."""
        spend_steps(40 + len(command.words) * len(command.directories))
        if len(self.state.parsed.commands) > MAX_LISTED:
            return self.state.mark_unreadable("it has too many commands")
        if command.words and command.words[0] in RESERVED:
            self.state.mark_unreadable("it has a part that is not looked into")
        self.state.parsed.takes_input |= command.words[:1] in _TAKES_INPUT
        self._note_evaluation(command.words)
        for text in run_by_options(command.words):
            self.list_possible(text, command.directories)
        wrapped = unwrap(command.words)
        if wrapped is None:
            self.state.parsed.commands.append(command)
            return
        if self.state.depth > MAX_DEPTH:
            return self.state.mark_unreadable("it is nested too deeply")
        if wrapped.opaque:
            self.state.mark_unreadable("it changes what the name of a command means")
        role = "wrap" if wrapped.clear and not command.globs else "unsure" if wrapped.guess else command.role
        role = "guess" if command.role == "guess" else role
        variables = command.variables + wrapped.variables
        self.state.parsed.commands.append(replace(command, variables=variables, role=role))
        if wrapped.file:
            self.state.parsed.commands.append(
                ShellCommand(wrapped.file, command.directories, variables=variables, role="guess")
            )
        for name, value in wrapped.values:
            self.check_value(name, value, command.directories)
        self._add_inside(command, wrapped, variables)
        return None

    def _note_evaluation(self, words: Words) -> None:
        """Note what a builtin evaluates: the names of variables that it gets, and their values."""
        named = evaluated_names(words)
        if evaluates_values(words):
            self.state.parsed.evaluates = self.state.parsed.calculates = True
            self.state.add_doubt("it calculates with variables")
        if words[:1] in _STORES_WORDS and (words[0] == "set" or named):
            self.state.parsed.holds_code |= any(may_become_code(word) for word in words if word is not None)
        if any(map(is_code, named)):
            self.state.mark_unreadable("it has a text that is evaluated")

    def _add_inside(self, command: ShellCommand, wrapped: WrappedCommands, variables: tuple[str, ...]) -> None:
        state = self.state.nested(self.state.parsed, same_home=wrapped.clear and "HOME" not in variables)
        inner = CommandListing(state, self._list_text)
        first = len(self.state.parsed.commands)
        globbed = {command.words[at] for at in command.globs}
        guess = wrapped.guess or wrapped.forbids or command.role == "guess"
        places = command.directories | {None} if may_move(command.words) else command.directories
        for words in wrapped.commands:
            globs = frozenset(at for at, word in enumerate(words) if word in globbed)
            unknown = frozenset(at for at, word in enumerate(words) if word is None)
            role = "guess" if guess else "run"
            inner.list_command(ShellCommand(words, places, globs, variables, role, splits=unknown))
        if wrapped.script is not None and guess:
            self.list_guess(wrapped.script, places, is_script=not wrapped.commands)
        elif wrapped.script is not None:
            self._list_text(state, wrapped.script, places)
        for at, found in enumerate(self.state.parsed.commands[first:], first):
            self.state.parsed.commands[at] = replace(found, wrappers=(*found.wrappers, command.words))
        if has_directory_command(self.state.parsed.commands[first:]):
            self.state.add_doubt("it changes the directory in a rare way")

    def check_value(self, name: str, value: str | None, places: Directories) -> None:
        """List what shells and programs may run or read because a variable has this value."""
        if not is_plain_value(name, value):
            self.state.parsed.odd_values.add(name)
        if name in READ_BY_SHELLS and value != "":
            self.state.parsed.commands.append(ShellCommand(("source", value), places, role="guess"))
        if value and RUN_BY_PROGRAMS.search(name):
            self.list_guess(value.lstrip("|!"), places)

    def list_possible(self, text: str | None, places: Directories) -> None:
        """List a text that may run as a command; None may be any command."""
        if text is None:
            self.state.parsed.commands.append(ShellCommand((None,), places, role="guess"))
        else:
            self.list_guess(text, places)

    def list_guess(self, text: str, places: Directories, *, is_script: bool = False) -> None:
        """List a text that may run as a command. A guess can only forbid.

        With `is_script` it is certainly a command, so an unreadable one may be any command. So may one with a
        substitution, which runs when the text is expanded.
        """
        aside = ParsedLine()
        if self.state.depth > MAX_DEPTH:
            return self.state.mark_unreadable("it is nested too deeply")
        self._list_text(self.state.nested(aside, same_home=False), text, places)
        self.state.parsed.depends_on_disk |= aside.depends_on_disk
        if aside.is_valid:
            self.state.parsed.commands += [replace(found, role="guess") for found in aside.commands]
            self.state.parsed.redirects += aside.redirects
        elif is_script or "$(" in text or "`" in text:
            self.state.parsed.commands.append(ShellCommand((None,), places, role="guess"))
        return None


_READING_SIGNS = frozenset({"<", "<&", "<<<"})
_FILE_SIGNS = frozenset({"<", ">", ">>", "&>", "&>>", ">|", ">&", "<&"})
_DESCRIPTOR = re.compile(r"[0-9]*-?")
_DECLARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)?")
_TEST_OPERATOR = re.compile(r"-[A-Za-z]{1,2}")
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_SHELL_TABLES = frozenset({"BASH_ALIASES", "BASH_CMDS", "aliases", "functions", "commands", "galiases", "saliases"})
"""Arrays of shells that define the meaning of a command's name."""

_INTEGER_OPTION = re.compile(r"-[A-Za-z]*i")
"""An option of a declaration after which values are evaluated."""

_SETS_INTEGER = "it sets a variable whose values are evaluated"

_TEXT_OPERATOR = re.compile(r"[@*]|[/^,%#].*|[: \d-]+", re.DOTALL)


class WordListing:
    """The list for one text, as far as words are concerned. `list_statements` lists those of a substitution."""

    def __init__(
        self,
        state: ListingState,
        commands: CommandListing,
        list_statements: Callable[[StatementSequence, Directories], None],
    ) -> None:
        self.state = state
        self.commands = commands
        self._list_statements = list_statements

    def fields(self, words: Iterable[Word]) -> list[ExpandedWord]:
        """Return the words of a command, with braces expanded up to a limit for the whole line."""
        found: list[ExpandedWord] = []
        steps = self.state.steps
        for word in words:
            known = steps.left > 0 or not has_braces(word)
            many = expand_word(word, self.state.values) if known else [UNKNOWN_WORD]
            steps.left -= len(many)
            found += many
        self.state.parsed.holds_code |= any(field.text is not None and is_code(field.text) for field in found)
        return found

    def list_names(self, words: Iterable[Word], places: Directories) -> None:
        """List the words of a loop or an array like those of a command: a pattern among them lists a directory."""
        fields = [ExpandedWord(":"), *self.fields(words)]
        if any(field.glob or field.splits for field in fields):
            self.list_fields(fields, places)

    def loop_values(self, node: ForLoop) -> None:
        """Note what the values of a loop may become when the line evaluates the variable of the loop."""
        self.state.parsed.holds_code |= any(map(self._may_become_code, node.words or ()))
        self.state.parsed.odd_values.add(node.name)
        if node.name in INTEGER_VARIABLES:
            self._note_calculation(_SETS_INTEGER)

    def list_fields(self, fields: list[ExpandedWord], places: Directories, variables: tuple[str, ...] = ()) -> None:
        """List a command with these words."""
        self.commands.list_command(
            ShellCommand(
                tuple(field.text for field in fields),
                places,
                frozenset(at for at, field in enumerate(fields) if field.glob),
                variables,
                shapes={at: field.shape for at, field in enumerate(fields) if field.text is None},
                splits=frozenset(at for at, field in enumerate(fields) if field.splits),
            )
        )

    def list_word(self, word: Word | None, places: Directories) -> None:
        """List the commands in a word and the variables that it reads."""
        if word is not None:
            self.list_parts(word.parts, places)

    def list_parts(self, parts: Iterable[WordPart], places: Directories) -> None:
        """List the commands in parts of words."""
        for part in parts:
            if isinstance(part, Substitution):
                self.state.parsed.takes_input |= not part.process
                with self.state.separate_shell():
                    self._list_statements(part.body, places)
            elif isinstance(part, Variable | Expansion):
                self._read(part.name)
            elif isinstance(part, Calculation) and part.is_uncertain:
                self._note_calculation("it calculates with variables, or may fail")
            if isinstance(part, Expansion) and not part.is_plain:
                self._note_calculation("it expands a variable in a rare way", calculates=not _is_text_expansion(part))
            if isinstance(part, Expansion | Calculation | EncodedText):
                self.list_parts(part.parts, places)

    def _read(self, name: str) -> None:
        if NAME.fullmatch(name) and name not in self.state.values.assigned:
            self.state.parsed.variables_read.add(name)

    def _note_calculation(self, why: str, *, calculates: bool = True) -> None:
        self.state.add_doubt(why)
        self.state.parsed.evaluates = True
        self.state.parsed.calculates |= calculates

    def assign(self, assignment: Assignment, places: Directories) -> None:
        """List the commands in an assignment; programs may run its value."""
        self.list_word(assignment.value, places)
        self.list_names(assignment.items or (), places)
        for item in assignment.items or ():
            self.list_word(item, places)
            self.state.parsed.holds_code |= self._may_become_code(item)
        if assignment.value is not None:
            self.state.parsed.holds_code |= self._may_become_code(assignment.value)
            self.commands.check_value(assignment.name, assigned_value(assignment.value, self.state.values), places)
        if assignment.adds or assignment.items is not None:
            self.state.parsed.odd_values.add(assignment.name)
        if assignment.name in _SHELL_TABLES and (assignment.element is not None or assignment.items is not None):
            self.state.mark_unreadable("it changes what the name of a command means")
        if (
            assignment.name in INTEGER_VARIABLES
            and not ((assignment.value and assignment.value.literal) or "x").isdigit()
        ):
            self._note_calculation(_SETS_INTEGER)
        if assignment.element is not None:
            self.state.add_doubt("it sets a part of a variable")
            if not (assignment.element.literal or "x").isdigit():
                self._note_calculation("it sets a part of a variable")

    def _holds_code(self, word: Word) -> bool:
        text = assigned_value(word, self.state.values)
        return text is not None and is_code(text)

    def _may_become_code(self, word: Word) -> bool:
        """Return True when a stored value is code, or a piece of which the line may make code."""
        return self._holds_code(word) or any(map(_is_piece_of_code, word.parts))

    def assign_alone(self, node: SimpleCommand, places: Directories) -> None:
        """List assignments without a command. They set variables of this shell from here on."""
        for assignment in node.assignments:
            value = None
            if assignment.value is not None and assignment.element is None and not assignment.adds:
                value = assigned_value(assignment.value, self.state.values)
            self.state.parsed.variables_set.add(assignment.name)
            self.state.values.assign(assignment.name, None if node.redirections else value)
            if not (node.redirections or assignment.adds or assignment.element):
                self.state.values.assigned |= {assignment.name}

    def declare(self, node: SimpleCommand, fields: list[ExpandedWord], places: Directories) -> None:
        """List `export`, `declare`, `unset` and the like. Without a name they print every variable, secrets too."""
        name = fields[0].text or ""
        written = tuple(field.text for field in fields)
        plain = name in {"export", "local", "readonly", "unset"} and len(node.words) + len(node.assignments) > 1
        for field in fields[1 : len(node.words)]:
            found = _DECLARED.match(field.text or "")
            if found is None or (found.end() < len(field.text or "") and not found[2]):
                plain = False
                continue
            self._declared(name, found[1], valued=bool(found[2]) or name == "unset")
            if found[2] == "=" and name in {"export", "readonly"} and not node.redirections:
                self.state.values.assigned |= {found[1]}
            if found[2]:
                value = (field.text or "").partition("=")[2]
                self.state.parsed.holds_code |= may_become_code(value)
                if found[1] in INTEGER_VARIABLES and not value.isdigit():
                    self._note_calculation(_SETS_INTEGER)
                self.commands.check_value(found[1], value, places)
        for assignment in node.assignments:
            self._declared(name, assignment.name, valued=True)
        if not plain or len(fields) != len(node.words):
            self.state.add_doubt("it declares variables in a rare way")
            self.state.parsed.evaluates = True
            self.state.parsed.calculates |= any(
                word is None or _INTEGER_OPTION.match(word) or has_subscript(word) for word in written[1:]
            )
            self.state.parsed.holds_code |= any(field.text is not None and is_code(field.text) for field in fields)
        if name == "unset" and any(is_code(word) for word in written[1:]):
            self.state.mark_unreadable("it has a text that is evaluated")
        shapes = {at: field.shape for at, field in enumerate(fields) if field.text is None}
        if len(fields) == len(node.words):  # bash does not split the value of a declared variable
            for at in shapes:
                first = node.words[at].parts[:1]
                if first and isinstance(first[0], FixedText) and _DECLARED.match(first[0].text):
                    shapes[at] = (first[0].text, None)
        self.state.parsed.commands.append(ShellCommand(written, places, role="wrap" if plain else "run", shapes=shapes))

    def _declared(self, builtin: str, name: str, valued: bool) -> None:
        """Note a variable of a declaration; one without a value sets none, but may export one."""
        if valued:
            self.state.parsed.variables_set.add(name)
        elif builtin == "readonly":
            self._read(name)  # its value from the environment is kept
        if builtin == "export":
            self.state.parsed.variables_exported.add(name)

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
            self.state.parsed.holds_code |= self._holds_code(item)
            words.append(expand_single(item, self.state.values).text)
        self.state.parsed.commands.append(ShellCommand(("[[", *words, "]]"), places))
        return places, places

    def check_test(self, words: Words) -> None:
        """Check `[ … ]` and `test` as commands: zsh evaluates compared numbers."""
        for at, word in enumerate(words):
            if word is None or not _TEST_OPERATOR.fullmatch(word) or word in PLAIN_TESTS:
                continue
            operands = (words[at - 1], words[at + 1] if at + 1 < len(words) else None)
            if word not in _NUMERIC or not all(operand is not None and operand.isdigit() for operand in operands):
                self._note_calculation("it has a test that calculates", calculates=word == "-v")
                self.state.parsed.holds_code |= any(word is not None and is_code(word) for word in words)

    def redirect(self, node: Redirection, places: Directories) -> None:
        """List the file that a redirection opens."""
        self.list_word(node.target, places)
        self.list_parts(node.body, places)
        fixed = "".join(part.text for part in (*node.target.parts, *node.body) if isinstance(part, FixedText))
        self.state.parsed.holds_code |= is_code(fixed)
        if node.sign in {"<<", "<<-", "<<<"}:
            return
        if node.sign not in _FILE_SIGNS:
            return self.state.add_doubt("it redirects in a rare way")
        field = expand_single(node.target, self.state.values)
        if node.sign in {">&", "<&"} and field.text is not None and _DESCRIPTOR.fullmatch(field.text):
            return None
        self.state.parsed.redirects.append(
            FileRedirect(field.text, node.sign not in _READING_SIGNS, places, field.glob, field.shape)
        )
        return None


def _is_text_expansion(part: Expansion) -> bool:
    """Return True for an expansion that evaluates no value: `${x/a/b}`, `${x:0:3}`, `${list[@]}`."""
    texts = [one.text for one in part.parts if isinstance(one, FixedText)]
    return len(texts) == len(part.parts) and _TEXT_OPERATOR.fullmatch("".join(texts)) is not None


def _is_piece_of_code(part: WordPart) -> bool:
    """Return True for a part with a literal `$`, and for one whose text is not known."""
    match part:
        case FixedText():
            return may_become_code(part.text)
        case Expansion():
            return any(map(_is_piece_of_code, part.parts))
        case _:
            return isinstance(part, EncodedText)


DIRECTORY_COMMANDS = word_set("cd pushd popd")
"""Builtins that change the directory."""

_PREFIXES = word_set("command builtin noglob nocorrect time -")
"""Words before a builtin that run it in the same shell."""

MAX_NAMES = 200
"""The most file names of one pattern that are followed one by one."""

MAX_WILD_PARTS = 3
"""The most directories of a path that may be patterns; more would take long to search."""


def without_prefixes(words: Words) -> Words:
    """Return the words of a command without `command`, `builtin` and the like, and their options, before it."""
    while words and words[0] in _PREFIXES:
        words = words[1:]
        while words and words[0] is not None and words[0].startswith("-"):
            words = words[1:]
    return words


def has_directory_command(commands: Iterable[ShellCommand]) -> bool:
    """Return True when one of these commands may change the directory."""
    return any(command.name in DIRECTORY_COMMANDS for command in commands)


def directory_after(place: Path | None, words: Words, values: ShellVariables) -> Path | None:
    """Return the directory after `cd` or `pushd DIR`, by name as in the shell, not by real path. None when it is not
    certain.
    """
    targets = [word for word in words[1:] if word != "--"]
    if len(targets) > 1 or not values.home or not (words[0] == "cd" or (words[0] == "pushd" and targets)):
        return None
    target = targets[0] if targets else "~"
    if target is None or target.startswith(("-", "+")) or not target:
        return None
    if target.startswith("~"):
        target = values.home + target[1:]
    if not target.startswith("/") and (place is None or _is_uncertain_directory(target, values)):
        return None
    whole = os.path.join(place or "/", target)
    found = os.path.normpath(whole)
    if ".." in target.split("/") and real_path(found) != real_path(whole):
        return None  # shells that follow links first reach another directory
    return Path(found)


def _is_uncertain_directory(target: str, values: ShellVariables) -> bool:
    """Return True when a relative directory may be found in other directories, or be the name of a variable."""
    if target.split("/")[0] in {".", ".."}:
        return False
    searches = "CDPATH" in os.environ or values.is_set("CDPATH") or values.is_set("cdpath")
    return searches or values.is_set(target)


def glob_names(pattern: str, place: Path | None) -> list[str] | None:
    """Return the words that bash makes of a pattern in this directory; None when they are too many or not certain."""
    if (place is None and not pattern.startswith(("/", "~"))) or "**" in pattern:
        return None
    if sum(map(is_pattern, pattern.split("/"))) > MAX_WILD_PARTS:
        return None
    whole = os.path.expanduser(pattern)
    found = matching_names(whole, None if place is None else str(place), MAX_NAMES)
    return None if found is None else sorted(found) or [whole]
