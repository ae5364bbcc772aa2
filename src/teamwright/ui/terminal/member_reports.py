"""The report of a member, whole: the final text that its idle notice brings to the lead.

    tester → lead:
      All tests pass. Two were slow:
      • test_api, 12 s

Depends on events and the renderer of texts.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from teamwright.protocol.events import MessageSent, TeamEvent, TurnEnded
from teamwright.protocol.ids import LEAD
from teamwright.ui.display_text import cell_width, one_line
from teamwright.ui.terminal.agent_text_output import RenderBlock
from teamwright.ui.terminal.event_formatter import EventFormatter, display_name
from teamwright.ui.terminal.markdown_stream import BlockStream

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
        said, names = one_line(text), f"{display_name(event.member)} → {display_name(event.to)}: "
        is_report = said.startswith(one_line(event.summary).removesuffix("…").rstrip()) and event.summary != "idle"
        if not said or not is_report or event.member == viewed:
            return []
        heading = f"{self.formatter.name(event.member)} → {self.formatter.name(event.to)}:"
        is_short = "\n" not in text.strip() and cell_width(names + said) <= self.formatter.width
        return [f"{heading} {said}"] if is_short else [heading, *self._body(event, text)]

    def _body(self, event: MessageSent, text: str) -> list[str]:
        stream, lines = BlockStream(), list[str]()
        for block in [*stream.add(text), *stream.end()]:
            lines += [*([""] if block.gap else []), *self.render(block, max(self.formatter.width - 3, 20))]
        left = len(lines) - MAX_REPORT_LINES
        more = f"… {left} more line{'' if left == 1 else 's'}: /view {display_name(event.member)}"
        shown = [f"  {line}".rstrip() for line in lines[:MAX_REPORT_LINES]]
        return [*shown, *([self.formatter.paint("dim", f"  {more}")] if left > 0 else [])]
