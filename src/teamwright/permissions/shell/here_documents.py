"""Line ends of a shell line, with what comes before and after them: comments and here-documents."""

from __future__ import annotations

import re

from teamwright.permissions.shell.line_cursor import (
    META,
    RARE_COMMENT,
    RARE_DOCUMENT,
    HereDocument,
    LineCursor,
    UnreadableLine,
)
from teamwright.permissions.shell.syntax_tree import FixedText, Word, WordPart
from teamwright.permissions.shell.word_reader import WordReader

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
