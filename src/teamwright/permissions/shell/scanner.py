"""A position in the text of a shell line: blanks, line ends, comments and here-documents.

The base of `word_reader` and `grammar`.
"""

from __future__ import annotations

import os
import re
from dataclasses import field

from teamwright.permissions.shell.syntax_tree import FixedText, Word, WordPart
from teamwright.protocol.values import dataclass

MAX_NESTING = 30
"""The deepest nesting of compound commands, substitutions and expansions that is parsed."""

OLD_BASH = os.uname().sysname == "Darwin"
"""True when bash may be 3.2, which finds the end of `$(…)` by counting quotes and brackets."""

META = frozenset(" \t\n;&|()<>")
"""Characters that end a word."""

_DELIMITER = re.compile(
    r"(?P<plain>[A-Za-z0-9_.-]+)|'(?P<one>[\w. -]+)'|\"(?P<two>[\w. -]+)\"|\\(?P<escaped>[A-Za-z0-9_.-]+)"
)
_ODD_ESCAPE = re.compile(r"[^\\](\\\\)*\\\n|^(\\\\)*\\\n")
_COUNTED = re.compile(r"[()'\"`\\]")


class UnreadableLine(Exception):
    """The line is not parsed. The text is the reason, as the end of a sentence."""


RARE_QUOTES = "it has a word that is quoted in a rare way"
RARE_DOCUMENT = "it has a here-document with a rare end"
NOT_BASH = "it is not a shell command that can be read"


@dataclass(slots=True)
class HereDocument:
    """A here-document whose text comes after the line: its last line, and the place for its expansions."""

    name: str
    literal: bool
    tabs: bool
    body: list[WordPart]


@dataclass(slots=True)
class SyntaxMarks:
    """The positions of commands, redirections and comments, for a comparison with the second parser."""

    commands: set[int] = field(default_factory=set[int])
    redirections: set[int] = field(default_factory=set[int])
    comments: set[int] = field(default_factory=set[int])


class Scanner:
    """A position in a line, and its context."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.marks = SyntaxMarks()
        self.waiting: list[HereDocument] = []
        self.documents = 0
        """The number of here-documents read in the enclosing substitution."""
        self._depth = 0
        self.substituted = 0
        """The number of substitutions around this position."""

    def filled_document(self) -> list[WordPart]:
        """Read the expansions between here and the end of a here-document."""
        raise NotImplementedError

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
                    raise UnreadableLine("it has a comment in a rare place")
            else:
                return

    def newlines(self) -> None:
        """Skip blanks, comments and line ends; here-documents are read at the end of their line."""
        while True:
            self.blanks()
            if self.is_next("#"):
                self._comment()
            if not self.is_next("\n"):
                return
            self.at += 1
            self._documents()

    def _comment(self) -> None:
        if self.substituted:
            raise UnreadableLine("it has a comment in a rare place")
        self.marks.comments.add(self.at)
        end = self.text.find("\n", self.at, self.end)
        self.at = self.end if end < 0 else end

    def document(self, sign: str, body: list[WordPart]) -> Word:
        """Parse the word after `<<`; the document is read at the end of the line."""
        found = _DELIMITER.match(self.text, self.at, self.end)
        if found is None or (found.end() < self.end and self.text[found.end()] not in META):
            raise UnreadableLine(RARE_DOCUMENT)
        name = found["plain"] or found["one"] or found["two"] or found["escaped"]
        self.waiting.append(HereDocument(name, found["plain"] is None, sign == "<<-", body))
        start, self.at = self.at, found.end()
        return Word((FixedText(name, quoted=True),), start)

    def _documents(self) -> None:
        for document in self.waiting:
            self.documents += 1
            start = self.at
            while True:
                stop = self.text.find("\n", self.at, self.end)
                stop = self.end if stop < 0 else stop
                line = self.text[self.at : stop]
                line = line.lstrip("\t") if document.tabs else line
                if line == document.name:
                    break
                if stop == self.end or (self.substituted and line.startswith(document.name)):
                    raise UnreadableLine(RARE_DOCUMENT)
                self.at = stop + 1
            if _COUNTED.search(self.text, start, self.at):
                self.check_counted("it has a here-document that old shells end elsewhere")
            if not document.literal:
                self._fill(document, start)
            self.at = min(stop + 1, self.end)
        self.waiting.clear()

    def _fill(self, document: HereDocument, start: int) -> None:
        """Read the expansions between here and the start of a here-document."""
        end, around = self.at, self.end
        if _ODD_ESCAPE.search(self.text, start, end):
            raise UnreadableLine("it has a here-document with lines that are joined")
        waiting, self.waiting = self.waiting, []
        self.at, self.end = start, end
        document.body += self.filled_document()
        if self.at != end:
            raise UnreadableLine(RARE_DOCUMENT)
        self.end, self.waiting = around, waiting
