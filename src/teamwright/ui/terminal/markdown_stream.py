"""Streamed text of an agent as blocks: paragraphs, headings, list items, code, tables, quotes.

`BlockStream` takes pieces of text and returns each block once, when it is complete. No text is lost: the texts of all
blocks are the lines of the stream, without the blank lines between blocks. `markdown` renders a block; it loads rich,
so it is a separate module.
"""

from __future__ import annotations

import re
from copy import copy
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from teamwright.ui.display_text import whole_words


class BlockKind(StrEnum):
    """The kinds of blocks."""

    PARAGRAPH = "paragraph"
    HEADING = "heading"
    ITEM = "item"
    CODE = "code"
    TABLE = "table"
    QUOTE = "quote"
    RULE = "rule"


class TextBlock(Struct, frozen=True):
    """A block as it was written. `gap`: after a blank line; `number`: the place of an item in a numbered list."""

    kind: BlockKind
    text: str
    gap: bool = False
    number: int | None = None


class BlockStream:
    """A buffer that takes pieces of text and returns complete blocks."""

    def __init__(self) -> None:
        self._rest = self._fence = ""
        self._lines: list[str] = []
        self._kind = BlockKind.PARAGRAPH
        self._number: int | None = None
        self._gap = self._is_in_list = False
        self._is_first = True

    def add(self, text: str) -> list[TextBlock]:
        """Add a piece of text and return the blocks that it completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [block for line in lines for block in self._add_line(line)]

    def end(self) -> list[TextBlock]:
        """Return the rest as the last blocks."""
        rest, self._rest = self._rest, ""
        blocks = self._add_line(rest) if rest else []
        blocks += self._finish()
        self._fence = ""
        self._number = None
        self._gap = False
        self._is_in_list = False
        self._is_first = True
        return blocks

    @property
    def is_open(self) -> bool:
        """True in the middle of a block, and between the items of a list."""
        return bool(self._lines or self._rest.strip() or self._is_in_list)

    def open_block(self) -> TextBlock | None:
        """Return the block that is not complete, with the part of a line that has arrived; None without one."""
        probe = copy(self)
        probe._lines = list(self._lines)
        words = whole_words(self._rest)  # half of a secret is not masked, so half a word is not shown
        ended = probe._add_line(words) if words.strip() else []
        if any(line.strip() for line in probe._lines):
            return probe._block()
        return ended[-1] if ended else None

    def _block(self) -> TextBlock:
        lines = self._lines
        if self._kind is not BlockKind.CODE:
            lines = lines[: max((at + 1 for at, line in enumerate(lines) if line.strip()), default=0)]
        return TextBlock(self._kind, "\n".join(lines), self._gap and not self._is_first, self._number)

    def _finish(self) -> list[TextBlock]:
        if not self._lines:
            return []
        block = self._block()
        is_blank_behind = not self._lines[-1].strip() and self._kind is not BlockKind.CODE
        self._lines = []
        self._gap = is_blank_behind
        self._is_first = False
        return [block] if block.text.strip() else []

    def _add_line(self, line: str) -> list[TextBlock]:
        if self._fence:
            return self._add_code(line)
        if not line.strip():
            return self._add_blank(line)
        if self._kind is BlockKind.ITEM and self._lines and self._continues_item(line):
            self._lines.append(line)
            return []
        return self._begin_or_continue(line)

    def _add_blank(self, line: str) -> list[TextBlock]:
        if self._kind is BlockKind.ITEM and self._lines:
            self._lines.append(line)
            return []
        blocks = self._finish()
        self._gap = True
        return blocks

    def _add_code(self, line: str) -> list[TextBlock]:
        self._lines.append(line)
        if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence = ""
            return self._finish()
        return []

    def _continues_item(self, line: str) -> bool:
        """Return True for a line of the open item: an indented one, or one that continues its paragraph."""
        indent = _indent(line)
        if sum(one.strip().startswith(("```", "~~~")) for one in self._lines) % 2:
            return True
        if (item := _ITEM.match(line)) is not None:
            return indent >= 2 and indent > _indent(self._lines[0]) and bool(item[0].strip())
        return indent >= 2 or (bool(self._lines[-1].strip()) and _begins(line) is None)

    def _begin_or_continue(self, line: str) -> list[TextBlock]:
        is_paragraph = bool(self._lines) and self._kind is BlockKind.PARAGRAPH
        if is_paragraph and _UNDERLINE.match(line):
            self._lines.append(line)
            self._kind = BlockKind.HEADING
            return self._finish()
        kind = _begins(line)
        if is_paragraph and kind is BlockKind.ITEM and (item := _ITEM.match(line)) and item[2] not in {None, "1"}:
            kind = None  # a year at the start of a line is no item
        if is_paragraph and self._is_table_head(line):
            self._kind = BlockKind.TABLE
        elif self._lines and (kind is None or kind is self._kind is BlockKind.QUOTE) and self._takes(line):
            pass
        else:
            return [*self._finish(), *self._begin(kind or BlockKind.PARAGRAPH, line)]
        self._lines.append(line)
        return []

    def _takes(self, line: str) -> bool:
        """Return True when the open block contains a line that begins no other block."""
        return self._kind in {BlockKind.PARAGRAPH, BlockKind.QUOTE} or (self._kind is BlockKind.TABLE and "|" in line)

    def _is_table_head(self, line: str) -> bool:
        return len(self._lines) == 1 and "|" in self._lines[0] and "-" in line and bool(_DELIMITER_ROW.match(line))

    def _begin(self, kind: BlockKind, line: str) -> list[TextBlock]:
        self._kind = kind
        self._lines = [line]
        number = _ITEM.match(line) if kind is BlockKind.ITEM else None
        if number is not None and number[2]:
            self._number = int(number[2]) if self._number is None else self._number + 1
        else:
            self._number = None
        self._is_in_list = kind is BlockKind.ITEM
        if kind is BlockKind.CODE:
            mark = line.strip()
            self._fence = mark[: len(mark) - len(mark.lstrip(mark[0]))]
        return self._finish() if kind in {BlockKind.HEADING, BlockKind.RULE} else []


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^`]*$")

_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")

_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")

_ITEM = re.compile(r"( {0,3})(?:[-*+]|(\d{1,9})[.)])(?:\s+\S|\s*$)")

_QUOTE = re.compile(r" {0,3}>")

_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})\s*$")

_DELIMITER_ROW = re.compile(r" {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")

_BEGINNINGS = (
    (BlockKind.CODE, _FENCE),
    (BlockKind.HEADING, _HEADING),
    (BlockKind.RULE, _RULE),
    (BlockKind.ITEM, _ITEM),
    (BlockKind.QUOTE, _QUOTE),
)


def _begins(line: str) -> BlockKind | None:
    """Return the kind of the block that a line begins, without regard to earlier lines; None for a line of text."""
    for kind, pattern in _BEGINNINGS:
        if pattern.match(line):
            return kind
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def numbered(block: TextBlock) -> TextBlock:
    """Return an item of a numbered list with the number of its place, as lists with equal numbers are counted."""
    if block.number is None:
        return block
    text = re.sub(r"\d{1,9}", str(block.number), block.text, count=1)
    return replace(block, text=text)
