"""The last lines of output of the command that the viewed agent waits for, in rows above the input line.

    lead       Bash pytest -q [c12]
               … 38 lines
               tests/test_api.py ......
               tests/test_cli.py ...

Nothing of it is printed: when the command ends, the line of its call replaces the rows. A timer redraws them while a
call runs. Only commands of this process are known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from teamwright.agent.background_jobs import RunningCommand
from teamwright.protocol.events import TeamEvent, ToolStarted
from teamwright.ui.display_text import cut, one_line, window_size
from teamwright.ui.terminal.call_lines import SHOWN_SECONDS, output_lines
from teamwright.ui.terminal.event_formatter import NAME_WIDTH, EventFormatter
from teamwright.ui.terminal.panel import TICK_S, RunningCalls

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
        indent, dim = " " * (NAME_WIDTH + 1), self.formatter.paint
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
