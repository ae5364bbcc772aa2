"""Keys of the terminal that do what a command does: Ctrl-B, Shift-Tab, Ctrl-O and `?`.

Depends on the package `session` and on the functions of commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD_ALIAS
from teamwright.session.session import Session
from teamwright.ui.terminal.call_lines import hidden_lines
from teamwright.ui.terminal.commands import HANDLERS, background_lines
from teamwright.ui.terminal.keys import key_lines

MODE_CYCLE = ("default", "acceptEdits", "plan")
"""The modes of Shift-Tab. Modes that ask for nothing are set only by name."""


class Shortcuts(Struct):
    """The keys of one session. `show` prints lines, broken between words."""

    session: Session
    show: Callable[[Sequence[str]], None]
    on_error: Callable[[TeamwrightError], None]
    _last_call: str = ""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def note(self, event: TeamEvent) -> None:
        """Remember the last call whose output was shown in part."""
        if isinstance(event, ToolCalled) and hidden_lines(event):
            self._last_call = event.call

    def move_to_background(self) -> None:
        """Move to the background what the lead itself waits for."""
        self._start(background_lines(self.session, LEAD_ALIAS))

    def next_mode(self) -> None:
        """Set the lead's next mode of the cycle."""
        now = str(self.session.modes.mode)
        at = MODE_CYCLE.index(now) + 1 if now in MODE_CYCLE else 0
        self._start(self._set_mode(MODE_CYCLE[at % len(MODE_CYCLE)]))

    async def _set_mode(self, mode: str) -> list[str]:
        """Set the mode. `plan` follows `default`: an approved plan does not accept edits because the keys passed by."""
        if mode == MODE_CYCLE[-1]:
            await HANDLERS["/mode"](self.session, MODE_CYCLE[0])
        return await HANDLERS["/mode"](self.session, mode)

    def show_output(self) -> None:
        """Show all output of the last call that was shown in part."""
        if self._last_call:
            self._start(HANDLERS["/log"](self.session, self._last_call))
        else:
            self.show(["  no call was shown in part; /log cN shows call N"])

    def show_keys(self) -> None:
        """Show the table of keys."""
        self.show([f"  {line}" for line in key_lines()])

    def _start(self, work: Awaitable[list[str]]) -> None:
        task = asyncio.create_task(self._run(work), name="a key")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, work: Awaitable[list[str]]) -> None:
        try:
            self.show(await work)
        except TeamwrightError as problem:
            self.on_error(problem)
