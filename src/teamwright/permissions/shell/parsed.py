"""What a shell line would do, as data: its commands, where they run, and the files that it redirects.

Made by `shell`, judged by `commands`. Knows words only.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from teamwright.permissions.shell.wrappers import Words
from teamwright.protocol.values import dataclass

Places = frozenset[Path | None]
"""The directories a command may run in; None among them: one that only the shell will know."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command. `globs` are the indexes of words that bash would match against file names.

    `role`: `run` needs to be allowed; `unsure` needs a rule that names it word by word; `wrap` only starts other
    commands of the list, and is as good as they are; `guess` may be run, as far as one can tell, and can only forbid.
    """

    words: Words
    places: Places
    globs: frozenset[int] = frozenset()
    variables: tuple[str, ...] = ()
    role: str = "run"

    @property
    def name(self) -> str | None:
        """The program, as written."""
        return self.words[0] if self.words else None


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that the shell opens for a command: `target` is None when only the shell will know it."""

    target: str | None
    writes: bool
    places: Places
    glob: bool = False


@dataclass(slots=True)
class Parsed:
    """What a command line would do. `ok` is False when it is not valid bash; `doubt` says what is not certain.

    `reads` are the variables whose values it uses, `sets` those it assigns. `evaluates`: it takes values for code, as
    arithmetic does; `holds_code`: a variable gets a text that would be some.
    """

    ok: bool = True
    doubt: str = ""
    commands: list[Command] = field(default_factory=list[Command])
    redirects: list[Redirect] = field(default_factory=list[Redirect])
    reads: set[str] = field(default_factory=set[str])
    sets: set[str] = field(default_factory=set[str])
    evaluates: bool = False
    holds_code: bool = False
