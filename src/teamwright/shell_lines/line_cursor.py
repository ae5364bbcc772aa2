"""A position in the text of a shell line, which all readers of the line share.

Skips blanks and counts nesting. Words are in `word_reader`, line ends in `grammar`.
"""

from __future__ import annotations

import os

from msgspec import Struct, field

from teamwright.shell_lines.syntax_tree import WordPart

MAX_NESTING = 30
"""The deepest nesting of compound commands, substitutions and expansions that is parsed."""

OLD_BASH = os.uname().sysname == "Darwin"
"""True when bash may be 3.2, which finds the end of `$(…)` by counting quotes and brackets."""

META = frozenset(" \t\n;&|()<>")
"""Characters that end a word."""


class UnreadableLine(Exception):
    """The line is not parsed. The text is the reason, as the end of a sentence."""


RARE_QUOTES = "it has a word that is quoted in a rare way"
RARE_DOCUMENT = "it has a here-document with a rare end"
RARE_COMMENT = "it has a comment in a rare place"
NOT_BASH = "it is not a shell command that can be read"


class HereDocument(Struct):
    """A here-document whose text comes after the line: its last line, and the place for its expansions."""

    name: str
    literal: bool
    tabs: bool
    body: list[WordPart]


class SyntaxMarks(Struct):
    """The positions of commands, redirections and comments, for a comparison with the second parser."""

    commands: set[int] = field(default_factory=set[int])
    redirections: set[int] = field(default_factory=set[int])
    comments: set[int] = field(default_factory=set[int])


class LineCursor:
    """A position in a line, and its context."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.marks = SyntaxMarks()
        self.waiting: list[HereDocument] = []
        """Here-documents whose texts come after this line of the text."""
        self.documents_read = 0
        """The number of here-documents read in the enclosing substitution."""
        self._depth = 0
        self.substituted = 0
        """The number of substitutions around this position."""

    def descend(self) -> None:
        """Enter one level of nesting. Raises UnreadableLine beyond the limit."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise UnreadableLine("it is nested too deeply")

    def ascend(self) -> None:
        """Leave one level of nesting."""
        self._depth -= 1

    def check_counted(self, why: str) -> None:
        """Refuse a text that an old bash takes for the end of the enclosing substitution."""
        if OLD_BASH and self.substituted:
            raise UnreadableLine(why)

    def has_old_blank(self, text: str) -> bool:
        """Return True when a character has a byte that an old bash takes for a blank."""
        return OLD_BASH and b"\xa0" in text.encode("utf-8", "surrogateescape")

    def is_next(self, text: str) -> bool:
        """Return True when this text comes next."""
        return self.text.startswith(text, self.at, self.end)

    def char(self) -> str:
        """Return the next character; empty at the end."""
        return self.text[self.at] if self.at < self.end else ""

    def expect(self, text: str) -> None:
        """Skip this text, which must come next."""
        if not self.is_next(text):
            raise UnreadableLine(NOT_BASH)
        self.at += len(text)

    def blanks(self) -> None:
        """Skip blanks and continued lines between two words."""
        while self.at < self.end:
            if self.text[self.at] in " \t":
                self.at += 1
            elif self.is_next("\\\n"):
                if self.waiting or (self.at and self.text[self.at - 1] not in " \t\n"):
                    raise UnreadableLine("it has a line break where none can be")
                self.at += 2
                if self.is_next("#"):
                    raise UnreadableLine(RARE_COMMENT)
            else:
                return
