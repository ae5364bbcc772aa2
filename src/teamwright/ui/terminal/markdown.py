"""Blocks of Markdown as lines of a terminal: headings, lists, tables, code with colours, quotes, links.

Depends on rich, which this module alone imports; it is loaded with the first text of an agent at a terminal. Without
colours the marks of headings and inline styles are kept, since nothing else shows them.
[ui/terminal/markdown]

Streamed text of an agent as blocks: paragraphs, headings, list items, code, tables, quotes.

`BlockStream` takes pieces of text and returns each block once, when it is complete. No text is lost: the texts of all
blocks are the lines of the stream, without the blank lines between blocks.
[ui/terminal/markdown_stream]
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from copy import copy
from enum import StrEnum
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from msgspec.structs import replace
from rich import box
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement, TableRowElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from teamwright.ui.display_text import clean, whole_words

_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.h5": "italic",
        "markdown.h6": "italic",
        "markdown.code": "cyan",
        "markdown.em": "italic",
        "markdown.strong": "bold",
        "markdown.s": "strike",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
        "markdown.block_quote": "dim",
        "markdown.hr": "dim",
        "markdown.item.bullet": "none",
        "markdown.item.number": "none",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
"""A parser that keeps HTML as text, so that nothing between angle brackets is lost."""

_MARKS = {"strong_open": "**", "strong_close": "**", "em_open": "*", "em_close": "*", "s_open": "~~", "s_close": "~~"}
"""Inline marks that stay when no colour shows them."""

CODE_INDENT = "  "


def _code_theme(env: str) -> str:
    """Return the theme for code; `COLORFGBG` ends in the colour of the background on terminals that set it."""
    return "ansi_light" if env.rpartition(";")[2] in {"7", "15"} else "ansi_dark"


class _PlainHeading(Heading):
    """A heading at the left edge."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class _WrappedCode(CodeBlock):
    """Code inside another block."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the code without a background."""
        yield _highlighted(str(self.text).rstrip(), self.lexer_name)


class _Item(ListItem):
    """A list item whose number has a dot."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> Iterator[Segment]:
        """Yield the lines of the item."""
        head = f" {number}. "
        lines = console.render_lines(self.elements, options.update(width=options.max_width - len(head)))
        for at, line in enumerate(lines):
            yield Segment(" " * len(head) if at else head)
            yield from line
            yield Segment("\n")


class _FittingTable(TableElement):
    """A table, or a list of its rows when the table is wider than the window."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table or the list."""
        head = self.header.row.cells if self.header is not None and self.header.row is not None else []
        rows = self.body.rows if self.body is not None else []
        cells = [head, *(row.cells for row in rows)]
        columns = max(map(len, cells), default=0)
        widths = [max(row[at].content.cell_len for row in cells if at < len(row)) for at in range(columns)]
        if sum(widths) + 3 * columns <= options.max_width:
            yield self._table(head, rows)
        else:
            yield from _row_list([cell.content for cell in head], rows)

    def _table(self, head: list[Any], rows: list[TableRowElement]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, style="markdown.table.border", show_edge=False)
        for cell in head:
            title = cell.content.copy()
            title.stylize("markdown.table.header")
            table.add_column(title, justify=cell.justify, no_wrap=True)
        for row in rows:
            table.add_row(*(cell.content for cell in row.cells))
        return table


def _row_list(titles: list[Text], rows: list[TableRowElement]) -> Iterator[Text | Padding]:
    """Yield the rows of a table as a list: the first cell, then each other cell with its title."""
    for row in rows:
        cells = [cell.content for cell in row.cells]
        yield Text.assemble(" • ", cells[0] if cells else "")
        for title, cell in zip(titles[1:], cells[1:], strict=False):
            if cell.plain.strip():
                yield Padding(Text.assemble((f"{title.plain}: ", "markdown.table.header"), cell), (0, 0, 0, 3))


class _Markdown(Markdown):
    """Markdown whose line breaks stay, and whose HTML is text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _WrappedCode,
        "code_block": _WrappedCode,
        "list_item_open": _Item,
        "table_open": _FittingTable,
    }

    def __init__(self, markup: str, *, keep_marks: bool) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = list(_adapted(_PARSER.parse(markup), keep_marks=keep_marks))


def _adapted(tokens: Iterable[Token], *, keep_marks: bool) -> Iterator[Token]:
    """Yield the tokens with line breaks as they were written; with `keep_marks` also the inline marks."""
    for token in tokens:
        if token.children:
            token.children = list(_adapted(token.children, keep_marks=keep_marks))
        if token.type == "softbreak":
            token.type = "hardbreak"
        if keep_marks and token.type in _MARKS:
            yield Token("text", "", 0, content=_MARKS[token.type])
        elif keep_marks and token.type == "code_inline":
            yield Token("text", "", 0, content=f"{token.markup}{token.content}{token.markup}")
        else:
            yield token
        if keep_marks and token.type == "heading_open":
            marks = Token("text", "", 0, content=f"{'#' * int(token.tag[1:])} ")
            yield Token("inline", "", 0, children=[marks])


def _highlighted(code: str, lexer: str) -> Text:
    theme = _code_theme(os.environ.get("COLORFGBG", ""))
    text = Syntax("", lexer or "text", theme=theme).highlight(code)
    text.rstrip()
    return text


class MarkdownRenderer:
    """A renderer of blocks, with or without colours."""

    def __init__(self, *, colors: bool) -> None:
        self._colors = colors
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="256" if colors else None,
            theme=_THEME,
            legacy_windows=False,
            highlight=False,
            emoji=False,
            markup=False,
        )

    def __call__(self, block: TextBlock, width: int) -> list[str]:
        """Return the lines of a block. Lines of a fence are not broken, so that code can be copied."""
        if block.kind is BlockKind.CODE:
            return [f"{CODE_INDENT}{line}".rstrip() for line in self._code_lines(block.text)]
        document = _Markdown(clean(numbered(block).text), keep_marks=not self._colors)
        options = self._console.options.update(width=width)
        lines = [self._painted(line) for line in Segment.split_lines(self._console.render(document, options))]
        while lines and not lines[-1].strip():
            lines.pop()
        first = next((at for at, line in enumerate(lines) if line.strip()), 0)
        return lines[first:]

    def _code_lines(self, text: str) -> list[str]:
        opening, *lines = clean(text).split("\n")
        indent = len(opening) - len(opening.lstrip())
        mark = re.match(r"[`~]+", opening.strip())
        if lines and mark is not None and lines[-1].strip().startswith(mark[0]):
            lines.pop()
        code = "\n".join(re.sub(f"^ {{0,{indent}}}", "", line) for line in lines)
        if not self._colors:
            return code.split("\n")
        words = opening.strip().lstrip("`~").split()
        code_text = _highlighted(code, words[0] if words else "")
        return [self._painted(line.render(self._console, "")) for line in code_text.split("\n", allow_blank=True)]

    def _painted(self, segments: Iterable[Segment]) -> str:
        """Return a line with its colours. Each text is cleaned again: Markdown can name characters by their codes."""
        parts = [(clean(text).replace("\n", " "), style) for text, style, control in segments if not control]
        while parts and not parts[-1][0].strip():
            parts.pop()
        if parts:
            parts[-1] = (parts[-1][0].rstrip(), parts[-1][1])
        if not self._colors:
            return "".join(text for text, _ in parts)
        colors = ColorSystem.EIGHT_BIT
        return "".join(style.render(text, color_system=colors) if style else text for text, style in parts)


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


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^`]*$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")
_ITEM = re.compile(r"( {0,3})(?:[-*+]|(\d{1,9})[.)])(?:\s+\S|\s*$)")
_QUOTE = re.compile(r" {0,3}>")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})\s*$")
_DELIMITER_ROW = re.compile(r" {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")


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
        self._fence, self._number = "", None
        self._gap, self._is_in_list, self._is_first = False, False, True
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
        self._lines, self._gap, self._is_first = [], is_blank_behind, False
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
        self._kind, self._lines = kind, [line]
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


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _begins(line: str) -> BlockKind | None:
    """Return the kind of the block that a line begins, without regard to earlier lines; None for a line of text."""
    for kind, pattern in _BEGINNINGS:
        if pattern.match(line):
            return kind
    return None


_BEGINNINGS = (
    (BlockKind.CODE, _FENCE),
    (BlockKind.HEADING, _HEADING),
    (BlockKind.RULE, _RULE),
    (BlockKind.ITEM, _ITEM),
    (BlockKind.QUOTE, _QUOTE),
)


def numbered(block: TextBlock) -> TextBlock:
    """Return an item of a numbered list with the number of its place, as lists with equal numbers are counted."""
    if block.number is None:
        return block
    text = re.sub(r"\d{1,9}", str(block.number), block.text, count=1)
    return replace(block, text=text)
