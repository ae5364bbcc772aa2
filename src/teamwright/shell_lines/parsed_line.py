"""The contents of a shell line as data: its commands, their directories, and the files of its redirections.

Created by `parse`, judged by `permissions.shell_verdict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from teamwright.shell_lines.command_words import Words
from teamwright.shell_lines.expansion import ANY_SHAPE, Shape

Directories = frozenset[Path | None]
"""The possible working directories of a command. None among them: one that only the shell knows."""


class ShellCommand(Struct, frozen=True):
    """One simple command. `globs` are the indexes of words that bash would match against file names.

    `shapes` has the known parts of each unknown word by its index: fixed texts, and None between them. `splits` are the
    indexes of unknown words that may become several words, none, or names of files; None: any may. `role`: `run` needs
    to be allowed; `unsure` needs a rule that names it word by word; `wrap` only starts other commands of the list, and
    is judged as they are; `guess` may run, and can only forbid.
    """

    words: Words
    directories: Directories
    globs: frozenset[int] = frozenset()
    variables: tuple[str, ...] = ()
    role: str = "run"
    shapes: Mapping[int, Shape] = field(default_factory=dict[int, Shape])
    splits: frozenset[int] | None = None
    wrappers: tuple[Words, ...] = ()
    """The commands that run this one, the nearest first: `timeout 5 make` for `make`."""

    @property
    def name(self) -> str | None:
        """The program, as written."""
        return self.words[0] if self.words else None

    def shape(self, at: int) -> Shape:
        """Return the known parts of the word at this index; a word with a text is its own shape."""
        word = self.words[at]
        return self.shapes.get(at, ANY_SHAPE) if word is None else (word,)

    def is_one_word(self, at: int) -> bool:
        """Return True when the word at this index is certainly one word when the program gets it."""
        if self.words[at] is None:
            return self.splits is not None and at not in self.splits
        return at not in self.globs


class FileRedirect(Struct, frozen=True):
    """A file that the shell opens for a command.

    `target` is None when only the shell knows it; `shape` then has the known parts.
    """

    target: str | None
    writes: bool
    directories: Directories
    glob: bool = False
    shape: Shape = ANY_SHAPE


class ParsedLine(Struct):
    """The contents of a command line. `is_valid` is False for invalid bash; `doubt` is the reason of an uncertainty.

    `variables_read` are used before the line has certainly set them, `variables_set` are assigned, and
    `variables_exported` are passed to programs. `evaluates`: it evaluates values as code, as arithmetic does;
    `holds_code`: it contains a text that would be code if it were evaluated. `calculates`: bash evaluates values;
    `takes_input`: some values come from files or from what programs print. `odd_values` are variables that may get a
    value which is more than a plain one.
    """

    is_valid: bool = True
    doubt: str = ""
    commands: list[ShellCommand] = field(default_factory=list[ShellCommand])
    redirects: list[FileRedirect] = field(default_factory=list[FileRedirect])
    variables_read: set[str] = field(default_factory=set[str])
    variables_set: set[str] = field(default_factory=set[str])
    variables_exported: set[str] = field(default_factory=set[str])
    evaluates: bool = False
    holds_code: bool = False
    calculates: bool = False
    takes_input: bool = False
    odd_values: set[str] = field(default_factory=set[str])
    depends_on_disk: bool = False
    """True when the contents follow from the files that were on the disk when the line was parsed."""

    @property
    def may_run_input(self) -> bool:
        """True when bash may evaluate a text that is not in the line: `read x < file; ((x))`."""
        return self.calculates and self.takes_input
