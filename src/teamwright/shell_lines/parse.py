"""The walk over a line's syntax tree: it lists the commands, each with its possible working directories.

`visit` returns two sets of directories: those after success of the statement, and all possible ones. Values of
variables are tracked too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from teamwright.shell_lines.ambiguity import has_control_characters, has_odd_characters, is_confirmed
from teamwright.shell_lines.command_listing import (
    DIRECTORY_COMMANDS,
    MAX_DEPTH,
    MAX_NAMES,
    CommandListing,
    ListingState,
    WordListing,
    directory_after,
    glob_names,
    has_directory_command,
    without_prefixes,
)
from teamwright.shell_lines.evaluated_text import EVALUATING_BUILTINS
from teamwright.shell_lines.expansion import ExpandedWord, has_odd_encoding, is_locale, may_lose_signs
from teamwright.shell_lines.grammar import DECLARING_BUILTINS, LineGrammar
from teamwright.shell_lines.line_cursor import UnreadableLine
from teamwright.shell_lines.parsed_line import Directories, ParsedLine
from teamwright.shell_lines.step_limit import TOO_LARGE, TooMuchWork, bounded_work, found_once, spend_steps
from teamwright.shell_lines.syntax_tree import (
    AndOr,
    BranchCommand,
    CalculateCommand,
    ForLoop,
    FunctionDefinition,
    NegatedCommand,
    Pipeline,
    RedirectedCommand,
    SimpleCommand,
    Statement,
    StatementSequence,
    Subshell,
    TestCommand,
    WhileLoop,
)
from teamwright.shell_lines.variables import ANY, UNRELIABLE, variables_set_by, variables_set_in_words

MAX_BYTES = 64 * 1024
"""The longest command that is parsed, in bytes. A longer one is only asked about."""


def parse_command(text: str, cwd: Path) -> ParsedLine:
    """Parse the command line for this directory. Never raises; the result is shared and must not be changed."""
    return found_once((parse_command, text, cwd), lambda: _parse_bounded(text, cwd))


class _DependsOnDisk(Exception):
    """The line was parsed with what is on the disk now, so a later verdict must parse it again."""

    def __init__(self, parsed: ParsedLine) -> None:
        super().__init__()
        self.parsed = parsed


def _parse_bounded(text: str, cwd: Path) -> ParsedLine:
    try:
        with bounded_work(separate=True):
            return parse_cached(text, cwd)
    except _DependsOnDisk as found:
        return found.parsed
    except (TooMuchWork, RecursionError):
        return too_large_line()


def too_large_line() -> ParsedLine:
    """Return the contents of a line that is too large to judge: none are known."""
    return ParsedLine(is_valid=False, doubt=TOO_LARGE)


@lru_cache(maxsize=512)
def parse_cached(text: str, cwd: Path) -> ParsedLine:
    """Parse a line whose contents follow from its text alone; the contents of another one are in the exception."""
    parsed = _parse(text, cwd)
    if parsed.depends_on_disk:
        raise _DependsOnDisk(parsed)  # which is not cached
    return parsed


def _parse(text: str, cwd: Path) -> ParsedLine:
    parsed = ParsedLine()
    state = ListingState(parsed)
    if len(text) > MAX_BYTES:
        state.mark_unreadable("it is too long to be read")
        return parsed
    list_text(state, text, frozenset({cwd}))
    if parsed.evaluates and parsed.holds_code:
        state.mark_unreadable("it has a text that is evaluated")
    if may_lose_signs(text) and any(map(is_locale, parsed.odd_values)):
        state.mark_unreadable(_OTHER_ENCODING)
    return parsed


def list_text(state: ListingState, text: str, places: Directories) -> None:
    """List the commands that this text would run."""
    if state.depth > MAX_DEPTH:
        return state.mark_unreadable("it is nested too deeply")
    if has_control_characters(text):
        return state.mark_unreadable(_ODD_CHARACTERS)
    if has_odd_characters(text):
        state.add_doubt(_ODD_CHARACTERS)
    if may_lose_signs(text) and (has_odd_encoding() or any(map(is_locale, state.parsed.odd_values))):
        state.mark_unreadable(_OTHER_ENCODING)
    grammar = LineGrammar(text)
    try:
        tree = grammar.parse_line()
    except UnreadableLine as problem:
        return state.mark_unreadable(str(problem))
    if not is_confirmed(text, grammar.marks):
        state.mark_unreadable("shells and editors read it differently")
    SyntaxWalk(state).visit(tree, places)
    return None


MAX_COMMANDS = 1_000
"""The most commands of one loop. Beyond it the loop's values are unknown."""

_OTHER_ENCODING = "its characters are read in another encoding"
_ODD_CHARACTERS = "it has characters that are easily misread"
_DECLARES = DECLARING_BUILTINS | {"unset"}

DirectoriesAfter = tuple[Directories, Directories]


class SyntaxWalk:
    """One pass over a text that tracks the working directory."""

    def __init__(self, state: ListingState) -> None:
        self.state = state
        self.words = WordListing(state, CommandListing(state, list_text), self._list_substituted)

    def _list_substituted(self, body: StatementSequence, places: Directories) -> None:
        self.visit(body, places)

    def visit(self, node: Statement, places: Directories) -> DirectoriesAfter:
        """List the commands of a statement."""
        self.state.steps.left -= 1
        spend_steps(25 + len(places))
        match node:
            case SimpleCommand():
                return self._simple(node, places)
            case TestCommand():
                return self.words.test(node, places)
            case StatementSequence():
                return self._sequence(node, places)
            case AndOr():
                return self._and_or(node, places)
            case Pipeline():
                return self._pipeline(node, places)
            case NegatedCommand():
                reached = self.visit(node.body, places)[1]
                return reached, reached
            case RedirectedCommand():
                self._set_directory(places)
                for redirection in node.redirections:
                    self.words.redirect(redirection, places)
                with self.state.separate_shell():  # if the file cannot be opened, nothing runs
                    moved = self.visit(node.body, places)
                self.state.values.mark_changed(variables_set_by(node))
                return moved[0], moved[1] | places
            case WhileLoop() | ForLoop():
                return self._loop(node, places)
            case _:
                return self._visit_rare(node, places)

    def _visit_rare(self, node: Statement, places: Directories) -> DirectoriesAfter:
        match node:
            case BranchCommand():
                return self._branches(node, places)
            case Subshell():
                with self.state.separate_shell():
                    self.visit(node.body, places)
            case FunctionDefinition():
                return self._function(node, places)
            case CalculateCommand():
                self.words.list_parts((node.calculation,), places)
                self.state.add_doubt("it calculates with variables")
                self.state.parsed.evaluates = self.state.parsed.calculates = True
                self.state.values.mark_changed(variables_set_by(node))
            case _:
                raise AssertionError(node)
        return places, places

    def _sequence(self, node: StatementSequence, places: Directories) -> DirectoriesAfter:
        reached = places
        for at, item in enumerate(node.items):
            if at in node.background:
                with self.state.separate_shell():
                    self.visit(item, reached)
            else:
                reached = reached | self.visit(item, reached)[1]
        return reached, reached

    def _and_or(self, node: AndOr, places: Directories) -> DirectoriesAfter:
        ok, ever = self.visit(node.items[0], places)
        assigned = self.state.values.assigned
        chained = True
        for both, item in zip(node.signs, node.items[1:], strict=True):
            chained = chained and both
            self.state.values.assigned = self.state.values.assigned if chained else assigned
            right_ok, right_ever = self.visit(item, ok if both else ever)
            self.state.values.mark_changed(variables_set_by(item))
            ok, ever = (right_ok if both else ok | right_ok), ever | right_ever
        self.state.values.assigned = assigned
        return ok, ever

    def _pipeline(self, node: Pipeline, places: Directories) -> DirectoriesAfter:
        """List a pipeline.

        Each command has its own shell; in zsh and with `lastpipe` the last one runs in this shell.
        """
        last = places
        for command in node.commands:
            with self.state.separate_shell():
                last = self.visit(command, places)[1]
        for command in node.commands:
            self.state.values.mark_changed(variables_set_by(command))
        return places | last, places | last

    def _branches(self, node: BranchCommand, places: Directories) -> DirectoriesAfter:
        for word in node.words:
            self.words.list_word(word, places)
        reached = places
        assigned = self.state.values.assigned
        for at, test in enumerate(node.always):
            reached = reached | self.visit(test, reached)[1]
            if at:
                self.state.values.mark_changed(variables_set_by(test))
            else:
                assigned = self.state.values.assigned
            reached = reached | self._list_optional(node.bodies[at], reached)
        for body in node.bodies[len(node.always) :]:
            reached = reached | self._list_optional(body, reached)
        self.state.values.assigned = assigned
        return reached, reached

    def _list_optional(self, body: StatementSequence, places: Directories) -> Directories:
        """List a body that may run. The variables that it sets are unknown after it."""
        with self.state.separate_shell():
            reached = self.visit(body, places)[1]
        self.state.values.mark_changed(variables_set_by(body))
        return reached

    def _function(self, node: FunctionDefinition, places: Directories) -> DirectoriesAfter:
        """List the body. A later word of the line may call it, so each `cd` in it counts from here on."""
        self.state.add_doubt("it defines a function")
        first = len(self.state.parsed.commands)
        names = variables_set_by(node.body)
        with self.state.separate_shell():
            self.state.values.mark_changed(frozenset({UNRELIABLE}))
            self.visit(node.body, places | {None})
        self.state.values.mark_volatile(names)
        moved = {None} if has_directory_command(self.state.parsed.commands[first:]) else set[None]()
        return places | moved, places | moved

    def _loop(self, node: WhileLoop | ForLoop, places: Directories) -> DirectoriesAfter:
        names = variables_set_by(node)
        assigned = self.state.values.assigned
        reached = self._list_loop_body(node, places)
        if reached != places and None not in places:
            self.state.add_doubt("it changes the directory in a loop")
            reached = reached | self._list_loop_body(node, reached | {None})
        self.state.values.mark_changed(names)
        self.state.values.assigned = assigned
        return reached, reached

    def _list_loop_body(self, node: WhileLoop | ForLoop, places: Directories) -> Directories:
        if isinstance(node, ForLoop):
            return self._for(node, places)
        self.state.values.mark_changed(variables_set_by(node))
        reached = places | self.visit(node.test, places)[1]
        return reached | self.visit(node.body, reached)[1]

    def _for(self, node: ForLoop, places: Directories) -> Directories:
        if node.head is not None:
            self.words.list_parts((node.head,), places)
            self.state.add_doubt("it calculates with variables")
            self.state.parsed.evaluates = self.state.parsed.calculates = True
            self.state.values.mark_changed(variables_set_by(node))
            return places | self.visit(node.body, places)[1]
        self._set_directory(places)
        for word in node.words or ():
            self.words.list_word(word, places)
        self.words.list_names(node.words or (), places)
        self.state.parsed.variables_set.add(node.name)
        self.words.loop_values(node)
        self.state.parsed.takes_input |= node.is_select
        values = self._loop_values(node) if node.words is not None and not node.is_select else None
        if values and self.state.steps.left > 0 and self._list_each_value(node, values, places):
            return places
        self.state.values.mark_changed(variables_set_by(node))
        self.state.values.assigned |= {node.name}
        return places | self.visit(node.body, places)[1]

    def _loop_values(self, node: ForLoop) -> list[str] | None:
        """Return the values of a loop's variable, in order; None when they are not all known."""
        found: list[str] = []
        for field in self.words.fields(node.words or ()):
            names = self._names(field)
            if names is None or len(found) + len(names) > MAX_NAMES:
                return None
            found += names
        return found

    def _names(self, field: ExpandedWord) -> list[str] | None:
        if field.text is None:
            return None
        if field.glob:
            self.state.parsed.depends_on_disk = True
            return glob_names(field.text, self.state.values.directory)
        return [os.path.expanduser(field.text) if field.text.startswith("~") else field.text]

    def _list_each_value(self, node: ForLoop, values: Iterable[str], places: Directories) -> bool:
        """List the body once for each value; return False when there are too many values or they are uncertain."""
        changed = variables_set_by(node.body)
        if changed & {node.name, ANY, UNRELIABLE}:
            return False
        commands, redirects = len(self.state.parsed.commands), len(self.state.parsed.redirects)
        for value in values:
            self.state.values.mark_changed(changed)
            self.state.values.assign(node.name, value)
            self.state.values.assigned |= {node.name}
            moved = self.visit(node.body, places)[1] != places
            if moved or self.state.steps.left <= 0 or len(self.state.parsed.commands) - commands > MAX_COMMANDS:
                del self.state.parsed.commands[commands:], self.state.parsed.redirects[redirects:]
                return False
        return True

    def _set_directory(self, places: Directories) -> None:
        """Set the directory in which later words are expanded."""
        self.state.values.directory = next(iter(places)) if len(places) == 1 else None

    def _simple(self, node: SimpleCommand, places: Directories) -> DirectoriesAfter:
        self._set_directory(places)
        for assignment in node.assignments:
            self.words.assign(assignment, places)
        for word in node.words:
            self.words.list_word(word, places)
        self._set_directory(places)
        for redirection in node.redirections:
            self.words.redirect(redirection, places)
        if not node.words:
            self.words.assign_alone(node, places)
            self.state.values.mark_changed(variables_set_in_words(node))
            return places, places
        first = len(self.state.parsed.commands)
        fields = self.words.fields(node.words)
        declares = node.words[0].literal in _DECLARES
        if not fields:
            self.state.mark_unreadable("it has a command that braces take away")
        elif declares:
            self.words.declare(node, fields, places)
        else:
            written = tuple(field.text for field in fields)
            if written[0] in {"[", "test"}:
                self.words.check_test(written)
            self.words.list_fields(fields, places, tuple(assignment.name for assignment in node.assignments))
        self.state.values.mark_changed(variables_set_by(node))
        return self._directories_after(fields, places, first)

    def _directories_after(self, fields: list[ExpandedWord], places: Directories, first: int) -> DirectoriesAfter:
        """Return the possible directories of the shell after a command, whose parts are listed from `first` on."""
        words = without_prefixes(tuple(field.text for field in fields))
        if words and words[0] in EVALUATING_BUILTINS and has_directory_command(self.state.parsed.commands[first:]):
            return places | {None}, places | {None}
        if not words or words[0] not in DIRECTORY_COMMANDS:
            return places, places
        sure = not any(field.glob for field in fields)
        self.state.parsed.depends_on_disk |= any(".." in (word or "") for word in words)
        spend_steps(sum(len(str(place)) for place in places))
        moved = frozenset(directory_after(place, words, self.state.values) if sure else None for place in places)
        return moved, moved | places
