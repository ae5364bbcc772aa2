"""How a command gets into the list of what a line runs: before it what it would run in turn, and what is in doubt.

Depends on `wrappers` for what is inside a command. Reads no text itself and knows no rule.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.permissions.shell.misread import RESERVED, is_code
from teamwright.permissions.shell.parsed import Command, Parsed, Places
from teamwright.permissions.shell.places import MOVES
from teamwright.permissions.shell.values import Values
from teamwright.permissions.shell.wrappers import Inside, evaluated, inside
from teamwright.protocol.values import dataclass

MAX_DEPTH = 8
"""Texts within texts (`bash -c "bash -c …"`); deeper is a doubt."""

MAX_STEPS = 3_000
"""Statements that are looked at while loops are followed value by value; beyond it their values are unknown."""


@dataclass(slots=True)
class Steps:
    """How many statements may still be looked at for the values of loops."""

    left: int = MAX_STEPS


class Listing:
    """The list being made for one text, and the list of what is inside its commands."""

    def __init__(
        self, parsed: Parsed, values: Values | None = None, depth: int = 0, steps: Steps | None = None
    ) -> None:
        self.parsed = parsed
        self.values = values or Values()
        self.depth = depth
        self.steps = steps or Steps()

    def text(self, text: str, places: Places) -> None:
        """List what this text would run."""
        raise NotImplementedError

    def another(self, parsed: Parsed, *, same_home: bool) -> Listing:
        """A list for what is inside a command; it begins with what other shells have of this one's variables."""
        values = self.values.inside()
        values.home = values.home if same_home else ""
        return type(self)(parsed, values, self.depth + 1, self.steps)

    def doubt(self, why: str) -> None:
        """Note that something is not certain."""
        self.parsed.doubt = self.parsed.doubt or why

    def unreadable(self, why: str) -> None:
        """Note that bash may run something else: not even a rule that forbids can be sure of the line."""
        self.parsed.ok = False
        self.doubt(why)

    def add(self, command: Command) -> None:
        """List a command, and after it what it would run in turn."""
        if command.words and command.words[0] in RESERVED:
            self.unreadable("it has a part that is not looked into")
        if any(map(is_code, evaluated(command.words))):
            self.unreadable("it has a text that is evaluated")
        wrapped = inside(command.words)
        if wrapped is None:
            self.parsed.commands.append(command)
            return
        if self.depth > MAX_DEPTH:
            return self.unreadable("it is nested too deeply")
        if wrapped.opaque:
            self.unreadable("it changes what the name of a command means")
        role = "wrap" if wrapped.clear and not command.globs else "unsure" if wrapped.guess else command.role
        role = "guess" if command.role == "guess" else role
        variables = command.variables + wrapped.variables
        self.parsed.commands.append(replace(command, variables=variables, role=role))
        if wrapped.file:
            self.parsed.commands.append(Command(wrapped.file, command.places, variables=variables, role="guess"))
        self._add_inside(command, wrapped, variables)
        return None

    def _add_inside(self, command: Command, wrapped: Inside, variables: tuple[str, ...]) -> None:
        inner = self.another(self.parsed, same_home=wrapped.clear and "HOME" not in variables)
        first = len(self.parsed.commands)
        globbed = {command.words[at] for at in command.globs}
        guess = wrapped.guess or wrapped.proven or command.role == "guess"
        for words in wrapped.commands:
            globs = frozenset(at for at, word in enumerate(words) if word in globbed)
            unknown = frozenset(at for at, word in enumerate(words) if word is None)
            role = "guess" if guess else "run"
            inner.add(Command(words, command.places, globs, variables, role, splits=unknown))
        if wrapped.script is not None and guess:
            self.guessed(wrapped.script, command.places, is_script=not wrapped.commands)
        elif wrapped.script is not None:
            inner.text(wrapped.script, command.places)
        if any(found.name in MOVES for found in self.parsed.commands[first:]):
            self.doubt("it changes the directory in a rare way")

    def guessed(self, text: str, places: Places, *, is_script: bool = False) -> None:
        """List a text that may be run, as far as one can tell: if it is a command, that can only forbid.

        With `is_script` it is certainly none but a command, so that one which cannot be read may be any.
        """
        aside = Parsed()
        if self.depth > MAX_DEPTH:
            return self.unreadable("it is nested too deeply")
        self.another(aside, same_home=False).text(text, places)
        if aside.ok:
            self.parsed.commands += [replace(found, role="guess") for found in aside.commands]
            self.parsed.redirects += aside.redirects
        elif is_script:
            self.parsed.commands.append(Command((None,), places, role="guess"))
        return None
