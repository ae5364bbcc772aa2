"""Blocks of Markdown as lines of a terminal: headings, lists, tables, code with colours, quotes, links.

Only this module imports rich; it is loaded with the first text of an agent at a terminal. Without colours the marks of
headings and inline styles are kept, since nothing else shows them.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
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

from teamwright.ui.display_text import clean
from teamwright.ui.terminal.markdown_stream import BlockKind, TextBlock, numbered


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


CODE_INDENT = "  "

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


def _code_theme(env: str) -> str:
    """Return the theme for code; `COLORFGBG` ends in the colour of the background on terminals that set it."""
    return "ansi_light" if env.rpartition(";")[2] in {"7", "15"} else "ansi_dark"
