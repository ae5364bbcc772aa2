"""The walk over a line's syntax tree, which lists its commands and where the shell would be at each.

`visit` returns two sets of places: where the shell is if the statement succeeded, and where it may be anyway. Values of
variables are followed beside it. Does not know rules or modes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from teamwright.permissions.shell.expansions import Expansions
from teamwright.permissions.shell.grammar import Grammar
from teamwright.permissions.shell.listing import MAX_DEPTH
from teamwright.permissions.shell.misread import control_characters, is_confirmed, odd_characters
from teamwright.permissions.shell.parsed import Command, Places
from teamwright.permissions.shell.places import MAX_NAMES, MOVES, after_moving, names_of
from teamwright.permissions.shell.scanner import Unreadable
from teamwright.permissions.shell.simple import DECLARES
from teamwright.permissions.shell.syntax import (
    AndOr,
    Branches,
    Calculate,
    For,
    Function,
    Pipeline,
    Redirected,
    Sequence,
    Simple,
    Statement,
    Subshell,
    Test,
    While,
    Word,
)
from teamwright.permissions.shell.values import ANY, UNSETTLED, set_by, set_in_words
from teamwright.permissions.shell.words import UNKNOWN, Field, fields_of, has_braces

MAX_COMMANDS = 1_000
"""More commands than this from one loop are not listed: its values are unknown then."""

_ODD = "it has characters that are easily misread"
_DECLARES = DECLARES | {"unset"}

Moved = tuple[Places, Places]


class Walk(Expansions):
    """One pass over a text, carrying where the shell would be."""

    def text(self, text: str, places: Places) -> None:
        """List what this text would run."""
        if self.depth > MAX_DEPTH:
            return self.unreadable("it is nested too deeply")
        if control_characters(text):
            return self.unreadable(_ODD)
        if odd_characters(text):
            self.doubt(_ODD)
        grammar = Grammar(text)
        try:
            tree = grammar.whole()
        except Unreadable as problem:
            return self.unreadable(str(problem))
        if not is_confirmed(text, grammar.marks):
            self.unreadable("shells and editors read it differently")
        self.visit(tree, places)
        return None

    def run(self, body: Sequence, places: Places) -> None:
        """List the statements of a substitution."""
        self.visit(body, places)

    def visit(self, node: Statement, places: Places) -> Moved:
        """List what a statement would run."""
        self.steps.left -= 1
        match node:
            case Simple():
                return self._simple(node, places)
            case Test():
                return self.test(node, places)
            case Sequence():
                return self._sequence(node, places)
            case AndOr():
                return self._and_or(node, places)
            case Pipeline():
                return self._pipeline(node, places)
            case Redirected():
                return self._redirected(node, places)
            case While() | For():
                return self._loop(node, places)
            case _:
                return self._rarer(node, places)

    def _rarer(self, node: Statement, places: Places) -> Moved:
        match node:
            case Branches():
                return self._branches(node, places)
            case Subshell():
                with self.apart():
                    self.visit(node.body, places)
            case Function():
                self._function(node, places)
            case Calculate():
                self.look_through((node.calculation,), places)
                self.doubt("it calculates with variables")
                self.parsed.evaluates = True
                self.values.forget(set_by(node))
            case _:
                raise AssertionError(node)
        return places, places

    def _sequence(self, node: Sequence, places: Places) -> Moved:
        reached = places
        for at, item in enumerate(node.items):
            if at in node.aside:
                with self.apart():
                    self.visit(item, reached)
            else:
                reached = reached | self.visit(item, reached)[1]
        return reached, reached

    def _and_or(self, node: AndOr, places: Places) -> Moved:
        ok, ever = self.visit(node.items[0], places)
        assigned, chained = self.values.assigned, True
        for both, item in zip(node.signs, node.items[1:], strict=True):
            chained = chained and both
            self.values.assigned = self.values.assigned if chained else assigned
            right_ok, right_ever = self.visit(item, ok if both else ever)
            self.values.forget(set_by(item))
            ok, ever = (right_ok if both else ok | right_ok), ever | right_ever
        self.values.assigned = assigned
        return ok, ever

    def _pipeline(self, node: Pipeline, places: Places) -> Moved:
        """Each command has a shell of its own, but to zsh and with `lastpipe` the last runs in this one."""
        last = places
        for command in node.commands:
            with self.apart():
                last = self.visit(command, places)[1]
        for command in node.commands:
            self.values.forget(set_by(command))
        return places | last, places | last

    def _branches(self, node: Branches, places: Places) -> Moved:
        for word in node.words:
            self.look_into(word, places)
        reached, assigned = places, self.values.assigned
        for at, test in enumerate(node.always):
            reached = reached | self.visit(test, reached)[1]
            if at:
                self.values.forget(set_by(test))
            else:
                assigned = self.values.assigned
            reached = reached | self._perhaps(node.bodies[at], reached)
        for body in node.bodies[len(node.always) :]:
            reached = reached | self._perhaps(body, reached)
        self.values.assigned = assigned
        return reached, reached

    def _perhaps(self, body: Sequence, places: Places) -> Places:
        """A body that may run: what it sets is not known after it."""
        with self.apart():
            reached = self.visit(body, places)[1]
        self.values.forget(set_by(body))
        return reached

    def _function(self, node: Function, places: Places) -> None:
        self.doubt("it defines a function")
        names = set_by(node.body)
        with self.apart():
            self.values.forget(frozenset({UNSETTLED}))
            self.visit(node.body, places | {None})
        self.values.keep_unknown(names)

    def _redirected(self, node: Redirected, places: Places) -> Moved:
        self._stand_at(places)
        for redirection in node.redirections:
            self.redirect(redirection, places)
        with self.apart():  # without the file that it opens nothing of it runs
            moved = self.visit(node.body, places)
        self.values.forget(set_by(node))
        return moved[0], moved[1] | places

    def _loop(self, node: While | For, places: Places) -> Moved:
        names, assigned = set_by(node), self.values.assigned
        reached = self._once(node, places)
        if reached != places and None not in places:
            self.doubt("it changes the directory in a loop")
            reached = reached | self._once(node, reached | {None})
        self.values.forget(names)
        self.values.assigned = assigned
        return reached, reached

    def _once(self, node: While | For, places: Places) -> Places:
        if isinstance(node, For):
            return self._for(node, places)
        self.values.forget(set_by(node))
        reached = places | self.visit(node.test, places)[1]
        return reached | self.visit(node.body, reached)[1]

    def _for(self, node: For, places: Places) -> Places:
        if node.head is not None:
            self.look_through((node.head,), places)
            self.doubt("it calculates with variables")
            self.parsed.evaluates = True
            self.values.forget(set_by(node))
            return places | self.visit(node.body, places)[1]
        self._stand_at(places)
        for word in node.words or ():
            self.look_into(word, places)
        self.list_names(node.words or (), places)
        self.parsed.sets.add(node.name)
        values = self._values_of(node) if node.words is not None and not node.picks else None
        if values and self.steps.left > 0 and self._followed(node, values, places):
            return places
        self.values.forget(set_by(node))
        self.values.assigned |= {node.name}
        return places | self.visit(node.body, places)[1]

    def _values_of(self, node: For) -> list[str] | None:
        """The values that a loop's variable takes, in order; None when they are not all known."""
        found: list[str] = []
        for field in self._fields(node.words or ()):
            names = self._names(field)
            if names is None or len(found) + len(names) > MAX_NAMES:
                return None
            found += names
        return found

    def _names(self, field: Field) -> list[str] | None:
        if field.text is None:
            return None
        if field.glob:
            return names_of(field.text, self.values.place)
        return [os.path.expanduser(field.text) if field.text.startswith("~") else field.text]

    def _followed(self, node: For, values: Iterable[str], places: Places) -> bool:
        """List the body once for each value; False when nothing was listed because that is too much or not certain."""
        changed = set_by(node.body)
        if changed & {node.name, ANY, UNSETTLED}:
            return False
        commands, redirects = len(self.parsed.commands), len(self.parsed.redirects)
        for value in values:
            self.values.forget(changed)
            self.values.assign(node.name, value)
            self.values.assigned |= {node.name}
            moved = self.visit(node.body, places)[1] != places
            if moved or self.steps.left <= 0 or len(self.parsed.commands) - commands > MAX_COMMANDS:
                del self.parsed.commands[commands:], self.parsed.redirects[redirects:]
                return False
        return True

    def _stand_at(self, places: Places) -> None:
        """Say where words are expanded from here on."""
        self.values.place = next(iter(places)) if len(places) == 1 else None

    def _simple(self, node: Simple, places: Places) -> Moved:
        self._stand_at(places)
        for assignment in node.assignments:
            self.assign(assignment, places)
        for word in node.words:
            self.look_into(word, places)
        self._stand_at(places)
        for redirection in node.redirections:
            self.redirect(redirection, places)
        if not node.words:
            self.assign_alone(node, places)
            self.values.forget(set_in_words(node))
            return places, places
        fields = self._fields(node.words)
        declares = node.words[0].literal in _DECLARES
        if not fields:
            self.unreadable("it has a command that braces take away")
        elif declares:
            self.declare(node, fields, places)
        else:
            self._command(node, fields, places)
        self.values.forget(set_by(node))
        return self._after(fields, places)

    def _fields(self, words: Iterable[Word]) -> list[Field]:
        """The words that a command gets; braces are followed up to a bound for the whole line."""
        found: list[Field] = []
        for word in words:
            many = fields_of(word, self.values) if self.steps.left > 0 or not has_braces(word) else [UNKNOWN]
            self.steps.left -= len(many)
            found += many
        return found

    def list_names(self, words: Iterable[Word], places: Places) -> None:
        """List the words of a loop or an array as those of a command: a pattern among them lists a directory."""
        fields = [Field(":"), *self._fields(words)]
        if any(field.glob or field.splits for field in fields):
            self._list(fields, places)

    def _list(self, fields: list[Field], places: Places, variables: tuple[str, ...] = ()) -> None:
        self.add(
            Command(
                tuple(field.text for field in fields),
                places,
                frozenset(at for at, field in enumerate(fields) if field.glob),
                variables,
                shapes={at: field.shape for at, field in enumerate(fields) if field.text is None},
                splits=frozenset(at for at, field in enumerate(fields) if field.splits),
            )
        )

    def _command(self, node: Simple, fields: list[Field], places: Places) -> None:
        written = tuple(field.text for field in fields)
        if written[0] in {"[", "test"}:
            self.check_test(written)
        self._list(fields, places, tuple(assignment.name for assignment in node.assignments))

    def _after(self, fields: list[Field], places: Places) -> Moved:
        """Where the shell is after a command."""
        if not fields or fields[0].text not in MOVES:
            return places, places
        sure = not any(field.glob for field in fields)
        words = tuple(field.text for field in fields)
        moved = frozenset(after_moving(place, words, self.values) if sure else None for place in places)
        return moved, moved | places
