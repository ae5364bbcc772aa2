"""Texts of agents on the screen, reports of members, and the last lines of the command that the viewed agent waits for.

    words arrive ──▶ the open block, in rows above the input line ──complete──▶ printed into the scrollback
    lines of other events ──▶ printed now, or after the open block

Each block of a text is printed once, whole. The output of a running command is never printed: it stays in rows above
the input line, which a timer redraws, until the line of its call replaces them. Only commands of this process are
known.

    lead       Bash pytest -q [c12]
               … 38 lines
               tests/test_api.py ......
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.background_jobs import RunningCommand
from teamwright.protocol.events import (
    AssistantText,
    MemberChanged,
    MessageSent,
    ModelCallEnded,
    Notice,
    TeamEvent,
    ToolCalled,
    ToolStarted,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.ui.display_text import cell_width, clean, cut, one_line, window_size, wrap_words
from teamwright.ui.terminal.events import NAME_WIDTH, SHELL, SHOWN_SECONDS, EventFormatter, display_name, output_lines
from teamwright.ui.terminal.markdown_stream import BlockKind, BlockStream, TextBlock
from teamwright.ui.terminal.panel import TICK_S, RunningCalls
from teamwright.ui.terminal.styles import is_plain_terminal

RenderBlock: TypeAlias = Callable[[TextBlock, int], list[str]]
"""A function that returns the lines of a block for a width in columns. Their only sequences are colours."""

MIN_TEXT_WIDTH = 20
MIN_OPEN_ROWS = 3
"""The minimum number of rows for the open block; in a higher window it has a third of the window."""


def raw_lines(block: TextBlock, width: int) -> list[str]:
    """Return a block as it was written, broken between words. Code is not broken, so that it can be copied."""
    lines = clean(block.text).split("\n")
    if block.kind in {BlockKind.CODE, BlockKind.TABLE}:
        return lines
    return [part for line in lines for part in wrap_words(line, width)]


def block_renderer(env: Mapping[str, str], *, markdown: bool, colors: bool) -> RenderBlock:
    """Return the renderer for a terminal. Terminals without a movable cursor show text as it was written."""
    if not markdown or is_plain_terminal(env):
        return raw_lines
    renderers: list[RenderBlock] = []

    def render(block: TextBlock, width: int) -> list[str]:
        if not renderers:
            from teamwright.ui.terminal.markdown import MarkdownRenderer  # loads rich, which no start waits for

            renderers.append(MarkdownRenderer(colors=colors))
        return renderers[0](block, width)

    return render


def ends_text(event: TeamEvent) -> bool:
    """Return True when the event ends the text of the agent that caused it. Other events do not interrupt a text."""
    if isinstance(event, Notice):
        return event.level != SHELL
    return isinstance(event, AssistantText | ToolStarted | ToolCalled | ModelCallEnded | TurnEnded | MemberChanged)


class AgentTextOutput(Struct):
    """The texts of the agents whose text is shown, and the lines that wait. `show` prints lines at once."""

    show: Callable[[Sequence[str]], None]
    mask: Callable[[str], str]
    render: RenderBlock = raw_lines
    heads: dict[str, str] = field(default_factory=dict[str, str])
    """The label before the text of an agent, as it is printed; no label without an entry."""
    _streams: dict[str, BlockStream] = field(default_factory=dict[str, BlockStream])
    _waiting: list[str] = field(default_factory=list[str])
    _is_after_item: bool = False
    """True in a list, which is one block for other lines."""

    def add(self, agent: str, text: str) -> None:
        """Add text of an agent and print the blocks that it completes."""
        for block in self._streams.setdefault(agent, BlockStream()).add(text):
            self._print_block(agent, block)

    def end(self, agent: str) -> None:
        """Print the rest of an agent's text. Lines that waited for it are printed after it."""
        for block in self._streams.pop(agent, BlockStream()).end():
            self._print_block(agent, block)
        self._print_waiting()

    def print(self, lines: Sequence[str], *, is_urgent: bool = False) -> None:
        """Print lines of an event, after the open block if there is one. Urgent lines are printed above it."""
        if self._is_open() and not is_urgent:
            self._waiting += lines
        else:
            self.show(lines)

    def open_rows(self) -> list[str]:
        """Return the last rows of the open block for the current window."""
        size = window_size()
        most = max(MIN_OPEN_ROWS, size.lines // 3)
        for agent, stream in self._streams.items():
            if (block := stream.open_block()) is not None:
                lines = self._block_lines(agent, block, size.columns)
                return [_cut_row(line, size.columns) for line in lines[-most:]]
        return []

    def _is_open(self, but: str = "") -> bool:
        return any(stream.is_open for agent, stream in self._streams.items() if agent != but)

    def _print_block(self, agent: str, block: TextBlock) -> None:
        lines = self._block_lines(agent, block, window_size().columns)
        if self._is_open(but=agent):
            self._waiting += lines
            return
        is_item = block.kind is BlockKind.ITEM
        if self._is_after_item and not is_item:
            self._print_waiting(but=agent)
        self.show([*([""] if block.gap else []), *lines])
        self._is_after_item = is_item
        if not is_item:
            self._print_waiting(but=agent)

    def _print_waiting(self, but: str = "") -> None:
        if not self._is_open(but):
            lines, self._waiting = self._waiting, []
            self.show(lines)

    def _block_lines(self, agent: str, block: TextBlock, columns: int) -> list[str]:
        head = self.heads.get(agent, "")
        width = cell_width(_without_colors(head))
        lines = self.render(replace(block, text=self.mask(block.text)), max(columns - width, MIN_TEXT_WIDTH))
        return [f"{' ' * width if at else head}{line}" for at, line in enumerate(lines)]


def _without_colors(text: str) -> str:
    """Return a text without its colour sequences."""
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.partition("m")[2] for part in parts[1:])


def _cut_row(row: str, columns: int) -> str:
    """Return a row that fits the window. A row that is too wide loses its colours."""
    plain = _without_colors(row)
    return row if cell_width(plain) <= columns else cut(plain, columns)


def rendered_lines(text: str, render: RenderBlock, width: int) -> list[str]:
    """Return the lines of a complete text of an agent for a width in columns."""
    stream = BlockStream()
    lines = list[str]()
    for block in [*stream.add(text), *stream.end()]:
        lines += [*([""] if block.gap else []), *render(block, max(width, MIN_TEXT_WIDTH))]
    return lines


MAX_REPORT_LINES = 12
"""The number of lines of a report that are shown; the rest is counted."""


class MemberReports(Struct):
    """The reports of members. `render` returns the lines of a block of text, `mask` hides secrets."""

    formatter: EventFormatter
    render: RenderBlock
    mask: Callable[[str], str]
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    """The final text of the last turn of each member, until its notice is sent."""

    def lines(self, event: TeamEvent, viewed: str) -> list[str]:
        """Return the lines of a report; none for other events, and for the viewed member."""
        if isinstance(event, TurnEnded) and event.member != LEAD:
            self._texts[event.member] = event.text
        if not isinstance(event, MessageSent) or event.wire != "idle_notification":
            return []
        text = self.mask(self._texts.pop(event.member, ""))
        line = one_line(text)
        names = f"{display_name(event.member)} → {display_name(event.to)}: "
        is_report = line.startswith(one_line(event.summary).removesuffix("…").rstrip()) and event.summary != "idle"
        if not line or not is_report or event.member == viewed:
            return []
        heading = f"{self.formatter.name(event.member)} → {self.formatter.name(event.to)}:"
        is_short = "\n" not in text.strip() and cell_width(names + line) <= self.formatter.width
        return [f"{heading} {line}"] if is_short else [heading, *self._body(event, text)]

    def _body(self, event: MessageSent, text: str) -> list[str]:
        lines = rendered_lines(text, self.render, self.formatter.width - 3)
        left = len(lines) - MAX_REPORT_LINES
        more = f"… {left} more line{'' if left == 1 else 's'}: /view {display_name(event.member)}"
        rows = [f"  {line}".rstrip() for line in lines[:MAX_REPORT_LINES]]
        return [*rows, *([self.formatter.paint("dim", f"  {more}")] if left > 0 else [])]


MAX_LINES = 3
"""The number of output lines that are shown."""


class RunningOutput(Struct):
    """The rows of one terminal. `viewed_name` returns the viewed agent, `find` the command that an agent waits for."""

    formatter: EventFormatter
    running_calls: RunningCalls
    viewed_name: Callable[[], str]
    find: Callable[[str], RunningCommand | None]
    mask: Callable[[str], str]
    changed: Callable[[], None]
    """A callback that lets the editor compare and redraw the rows."""
    _timer: asyncio.TimerHandle | None = None

    def note(self, event: TeamEvent) -> None:
        """Start the timer when a call begins."""
        if isinstance(event, ToolStarted) and self._timer is None:
            self._arm()

    def end(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rows(self) -> list[str]:
        """Return the rows; none for a command that began less than a second ago, or has printed nothing."""
        command = self.find(self.viewed_name())
        if command is None or time.monotonic() - command.began < SHOWN_SECONDS:
            return []
        lines = output_lines(self.mask(command.output.end()))[-MAX_LINES:]
        if not lines:
            return []
        room = max(window_size().columns - NAME_WIDTH - 2, NAME_WIDTH)
        before = command.output.line_count - len(lines)
        count = [f"… {before:,} line{'' if before == 1 else 's'}"] if before > 0 else []
        number = f" [{command.call}]"
        head = cut(f"Bash {one_line(self.mask(command.text))}", room - len(number)) + number
        indent = " " * (NAME_WIDTH + 1)
        dim = self.formatter.paint
        return [
            self.formatter.line(command.owner, head),
            *(indent + dim("dim", cut(line, room)) for line in [*count, *lines]),
        ]

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.changed()
        if any(self.running_calls.calls.values()):
            self._arm()
