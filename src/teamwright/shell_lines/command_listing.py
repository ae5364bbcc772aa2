"""The commands that a command runs in turn, with the state of the list that is being made and the working directory.

The working directory follows `cd`. Read-only. Adds to the list of `parser`, which follows statements.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.shell_lines.ambiguity import RESERVED, is_code, may_become_code
from teamwright.shell_lines.command_words import Words, word_set
from teamwright.shell_lines.evaluated_text import (
    READ_BY_SHELLS,
    RUN_BY_PROGRAMS,
    evaluated_names,
    evaluates_values,
)
from teamwright.shell_lines.matching_names import is_pattern, matching_names
from teamwright.shell_lines.parsed_line import Directories, ParsedLine, ShellCommand
from teamwright.shell_lines.plain_values import is_plain_value
from teamwright.shell_lines.variables import ShellVariables
from teamwright.shell_lines.work_bound import spend_steps
from teamwright.shell_lines.wrapped_commands import WrappedCommands, may_move, run_by_options
from teamwright.shell_lines.wrappers import unwrap
from teamwright.storage.real_paths import real_path

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
    if not target.startswith("/") and (place is None or _is_uncertain(target, values)):
        return None
    whole = os.path.join(place or "/", target)
    found = os.path.normpath(whole)
    if ".." in target.split("/") and real_path(found) != real_path(whole):
        return None  # shells that follow links first reach another directory
    return Path(found)


def _is_uncertain(target: str, values: ShellVariables) -> bool:
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


MAX_DEPTH = 8
"""The deepest nesting of texts (`bash -c "bash -c …"`). A deeper one is a doubt."""

MAX_LISTED = 2_000
"""The most commands of a line that are judged."""

_KEEP_WORDS = {("set",), ("printf",)}
"""Builtins that may store their words in variables."""

_TAKE_INPUT = {("read",), ("mapfile",), ("readarray",), ("xargs",)}
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
        self.state.parsed.takes_input |= command.words[:1] in _TAKE_INPUT
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
        if words[:1] in _KEEP_WORDS and (words[0] == "set" or named):
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

        With `is_script` it is certainly a command, so an unreadable one may be any command.
        """
        aside = ParsedLine()
        if self.state.depth > MAX_DEPTH:
            return self.state.mark_unreadable("it is nested too deeply")
        self._list_text(self.state.nested(aside, same_home=False), text, places)
        self.state.parsed.depends_on_disk |= aside.depends_on_disk
        if aside.is_valid:
            self.state.parsed.commands += [replace(found, role="guess") for found in aside.commands]
            self.state.parsed.redirects += aside.redirects
        elif is_script:
            self.state.parsed.commands.append(ShellCommand((None,), places, role="guess"))
        return None
