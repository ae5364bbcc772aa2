"""Simple commands of a shell line: assignments, words and redirections; line ends with comments and here-documents.

Depends on `word_reader`; operators between commands are in `grammar`.
"""

from __future__ import annotations

import re

from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.line_cursor import (
    META,
    NOT_BASH,
    RARE_COMMENT,
    RARE_DOCUMENT,
    RARE_QUOTES,
    HereDocument,
    LineCursor,
    UnreadableLine,
)
from teamwright.shell_lines.syntax_tree import Assignment, FixedText, Redirection, SimpleCommand, Word, WordPart
from teamwright.shell_lines.word_reader import WordReader
from teamwright.shell_lines.work_bound import spend_steps

_OF_COMMAND = 40
"""The steps to parse one command."""

_DELIMITER = re.compile(
    r"(?P<plain>[A-Za-z0-9_.-]+)|'(?P<one>[\w. -]+)'|\"(?P<two>[\w. -]+)\"|\\(?P<escaped>[A-Za-z0-9_.-]+)"
)
_ODD_ESCAPE = re.compile(r"[^\\](\\\\)*\\\n|^(\\\\)*\\\n")
_COUNTED = re.compile(r"[()'\"`\\]")


class HereDocumentReader:
    """Reads line ends. The here-documents of a line begin after its end."""

    def __init__(self, scanner: LineCursor, words: WordReader) -> None:
        self.scanner = scanner
        self.words = words

    def newlines(self) -> None:
        """Skip blanks, comments and line ends; here-documents are read at the end of their line."""
        scanner = self.scanner
        while True:
            scanner.blanks()
            if scanner.is_next("#"):
                self._comment()
            if not scanner.is_next("\n"):
                return
            scanner.at += 1
            self._documents()

    def _comment(self) -> None:
        scanner = self.scanner
        if scanner.substituted:
            raise UnreadableLine(RARE_COMMENT)
        scanner.marks.comments.add(scanner.at)
        end = scanner.text.find("\n", scanner.at, scanner.end)
        scanner.at = scanner.end if end < 0 else end

    def delimiter(self, sign: str, body: list[WordPart]) -> Word:
        """Parse the word after `<<`; the document is read at the end of the line."""
        scanner = self.scanner
        found = _DELIMITER.match(scanner.text, scanner.at, scanner.end)
        if found is None or (found.end() < scanner.end and scanner.text[found.end()] not in META):
            raise UnreadableLine(RARE_DOCUMENT)
        name = found["plain"] or found["one"] or found["two"] or found["escaped"]
        scanner.waiting.append(HereDocument(name, found["plain"] is None, sign == "<<-", body))
        start, scanner.at = scanner.at, found.end()
        return Word((FixedText(name, quoted=True),), start)

    def _documents(self) -> None:
        scanner = self.scanner
        for document in scanner.waiting:
            scanner.documents_read += 1
            start = scanner.at
            while True:
                stop = scanner.text.find("\n", scanner.at, scanner.end)
                stop = scanner.end if stop < 0 else stop
                line = scanner.text[scanner.at : stop]
                line = line.lstrip("\t") if document.tabs else line
                if line == document.name:
                    break
                if stop == scanner.end or (scanner.substituted and line.startswith(document.name)):
                    raise UnreadableLine(RARE_DOCUMENT)
                scanner.at = stop + 1
            if _COUNTED.search(scanner.text, start, scanner.at):
                scanner.check_counted("it has a here-document that old shells end elsewhere")
            if document.literal:
                document.body.append(FixedText(scanner.text[start : scanner.at], quoted=True))
            else:
                self._fill(document, start)
            scanner.at = min(stop + 1, scanner.end)
        scanner.waiting.clear()

    def _fill(self, document: HereDocument, start: int) -> None:
        """Read the expansions between here and the start of a here-document."""
        scanner = self.scanner
        end, around = scanner.at, scanner.end
        if _ODD_ESCAPE.search(scanner.text, start, end):
            raise UnreadableLine("it has a here-document with lines that are joined")
        waiting, scanner.waiting = scanner.waiting, []
        scanner.at, scanner.end = start, end
        document.body += self.words.document_parts()
        if scanner.at != end:
            raise UnreadableLine(RARE_DOCUMENT)
        scanner.end, scanner.waiting = around, waiting


DECLARING_BUILTINS = word_set("declare typeset export readonly local")
"""Builtins whose words may be assignments."""

_REDIRECTION = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)|(&>>|&>)")
_BEFORE_REDIRECTION = re.compile(r"[ \t]*[<>]")
_DUPLICATED = re.compile(r"[A-Za-z0-9_./-]+")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[)?")
_ELEMENT = re.compile(r"\[([^\s\"'`\\;&|<>()\[\]$]*)\]")
_CALLED = re.compile(r"[ \t]*\([ \t]*\)")
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:+-]*")


class SimpleCommandReader:
    """Reads simple commands."""

    def __init__(self, scanner: LineCursor, words: WordReader, documents: HereDocumentReader) -> None:
        self.scanner = scanner
        self.words = words
        self.documents = documents
        self.timed = False
        """True when the next command is marked already, by `time` before it."""

    def redirection(self, found: list[Redirection]) -> bool:
        """Parse one redirection, if one begins here."""
        scanner = self.scanner
        match = _REDIRECTION.match(scanner.text, scanner.at, scanner.end)
        if match is None or (match[2] in {"<", ">"} and scanner.text.startswith("(", match.end()) and not match[1]):
            return False
        if len(match[1] or "") > 1:
            raise UnreadableLine("it redirects in a rare way")  # zsh takes the digits for a word
        start, scanner.at = scanner.at, match.end()
        scanner.marks.redirections.add(start)
        sign = match[2] or match[3]
        scanner.blanks()
        empty_redirection = Redirection(sign, Word(()))
        target = self.documents.delimiter(sign, empty_redirection.body) if sign in {"<<", "<<-"} else self.words.word()
        if target is None or scanner.is_next("("):
            raise UnreadableLine(NOT_BASH)
        if sign in {">&", "<&"} and not _DUPLICATED.fullmatch(target.literal or ""):
            raise UnreadableLine("it redirects in a rare way")  # bash expands this word twice
        found.append(Redirection(sign, target, empty_redirection.body))
        return True

    def simple(self) -> SimpleCommand | str:
        """Parse a simple command, or the head of a function: return the name of `name() …`."""
        spend_steps(_OF_COMMAND)
        scanner = self.scanner
        start = scanner.at
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        declares, marked = False, self.timed
        self.timed = False
        while True:
            scanner.blanks()
            if self.redirection(redirections):
                continue
            assigned = self._assignment(words) if not words or declares else None
            if assigned is not None:
                assignments.append(assigned)
                continue
            word = self.words.word()
            if word is None:
                break
            if scanner.is_next("(") or (not words and _CALLED.match(scanner.text, scanner.at, scanner.end)):
                return self._function_name(word, start, bool(words or assignments or redirections))
            self._check_redirected(word, redirections)
            if not words and scanner.text[word.start] == "{":
                raise UnreadableLine("it has braces where a command begins")  # in zsh they open a group
            if not words:
                scanner.marks.commands |= set() if marked else {word.start}
                declares = word.literal in DECLARING_BUILTINS
            words.append(word)
        if not (words or assignments or redirections):
            raise UnreadableLine(NOT_BASH)
        return SimpleCommand(tuple(assignments), tuple(words), tuple(redirections))

    def _check_redirected(self, word: Word, redirections: list[Redirection]) -> None:
        """Refuse forms that sh reads differently: after `&>file` another command; `{name}>file` stores a descriptor."""
        descriptor = (word.literal or "").startswith("{") and _BEFORE_REDIRECTION.match(
            self.scanner.text, self.scanner.at, self.scanner.end
        )
        if descriptor or any(one.sign in {"&>", "&>>"} for one in redirections):
            raise UnreadableLine("it redirects in a rare way")

    def _assignment(self, words: list[Word]) -> Assignment | None:
        """Parse `name=value` before a command, or an array in a declaration."""
        scanner = self.scanner
        found = _ASSIGNED.match(scanner.text, scanner.at, scanner.end)
        if found is None:
            return None
        after, element = found.end(), None
        if found[2]:
            subscript = _ELEMENT.match(scanner.text, after - 1, scanner.end)
            if subscript is None:
                raise UnreadableLine("it sets a part of a variable in a rare way")
            after = subscript.end()
            element = Word((FixedText(subscript[1]),), found.end())
        adds = scanner.text.startswith("+", after, scanner.end)
        after += adds
        if not scanner.text.startswith("=", after, scanner.end):
            return None
        if words and not scanner.text.startswith("(", after + 1, scanner.end):
            return None
        scanner.at = after + 1
        if scanner.is_next("("):
            return Assignment(found[1], items=self._array(), adds=adds, element=element)
        value = self.words.word(inside=True) or Word((), scanner.at)
        if scanner.is_next("("):
            raise UnreadableLine(RARE_QUOTES)
        return Assignment(found[1], value, adds=adds, element=element)

    def _array(self) -> tuple[Word, ...]:
        scanner = self.scanner
        scanner.at += 1
        items: list[Word] = []
        self.documents.newlines()
        while not scanner.is_next(")"):
            word = self.words.word()
            # `[…]=x` evaluates the text in the brackets
            if word is None or scanner.waiting or scanner.text[word.start] == "[":
                raise UnreadableLine("it sets an array in a rare way")
            items.append(word)
            self.documents.newlines()
        scanner.at += 1
        if scanner.char() and scanner.char() not in " \t\n;&|)":
            raise UnreadableLine("it sets an array in a rare way")
        return tuple(items)

    def _function_name(self, word: Word, start: int, more: bool) -> str:
        """Parse the brackets after the name of a function."""
        called = _CALLED.match(self.scanner.text, self.scanner.at, self.scanner.end)
        name = word.literal or ""
        if called is None or more or word.start != start or not _FUNCTION_NAME.fullmatch(name):
            raise UnreadableLine(RARE_QUOTES)
        self.scanner.at = called.end()
        return name
