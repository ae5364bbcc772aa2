"""Everything below the line: members, tasks when wanted, and the status; drawn anew from the session each time.

Keeps only what a person set with keys. While an age is shown it has itself looked at again when the words for it
change, and not before; with nothing that ages there is no timer. Knows a session, or one member, through `app`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field

from teamwright.app.looking.board import Board
from teamwright.app.looking.now import STARTING, MemberNow, Scene
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import TaskChanged, TeamChanged, TeamEvent
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.activity import Activity
from teamwright.ui.terminal.paint import Paint
from teamwright.ui.terminal.panel.ages import changes_in
from teamwright.ui.terminal.panel.rows import Beside, Look, ages_of, member_rows
from teamwright.ui.terminal.panel.selection import Selection
from teamwright.ui.terminal.panel.status import status_line
from teamwright.ui.terminal.panel.tasks import task_rows
from teamwright.ui.window import window_size

ROWS_MOST = 8
"""Rows of members, and rows of tasks, at most; in a low window less: each a third of its height."""

TICK_S = 1.0
"""Ages alone have the screen redrawn no more often than this, in seconds."""


@dataclass(slots=True)
class Panel:
    """See editor.Below. `viewed` says whose conversation is shown, `opened` shows another's; None: there is none."""

    scene: Scene
    activity: Activity
    paint: Paint
    viewed: Callable[[], str]
    opened: Callable[[str], None] | None
    mask: Callable[[str], str]
    board: Board = field(default_factory=Board)
    selection: Selection = field(default_factory=Selection)
    tasks_shown: bool = False
    changed: Callable[[], None] = lambda: None
    """Has the screen looked at again."""
    _timer: asyncio.TimerHandle | None = None
    _reading: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def begin(self) -> None:
        """Read the task list; from then on events tell."""
        self._read()

    def tasks_changed(self) -> None:
        """Somebody changed the list where no event tells of it."""
        self._read()

    def end(self) -> None:
        """No timer outlives it."""
        self._stop_timer()
        for task in self._reading:
            task.cancel()

    def note(self, event: TeamEvent) -> None:
        """Take an event in."""
        match event:
            case TeamChanged():
                self._read()
            case TaskChanged():
                self.board.note(event)
            case _:
                pass

    # ── see editor.Below ──────────────────────────────────────────────────────────────────────────────────────

    def lines(self) -> list[str]:
        """All rows as they are now, for the window as it is now."""
        size = window_size()
        width, most = max(size.columns - 1, 1), max(1, min(ROWS_MOST, size.lines // 3))
        members, now = self.scene.members(self.board), time.time()
        self.selection.settle([one.name for one in members])
        look = Look(width, most, now, self.selection.name, self.viewed(), self.paint, self.mask)
        rows = member_rows(members, self._beside(members), look)
        self._wake(now, ages_of(members) if rows else [])
        tasks = task_rows(self.board, width, most, self.paint, self.mask) if self.tasks_shown else []
        status = status_line(self.scene.now(self.board), width - 1)
        return [*rows, *tasks, self.paint("dim", f" {status}")]

    def move(self, by: int) -> bool:
        """See Below."""
        if self.opened is None:
            return False
        members = self.scene.members(self.board)
        return self.selection.move(
            by, [one.name for one in members if one.name != self.viewed() and one.state != STARTING]
        )

    def marked(self) -> bool:
        """See Below."""
        return bool(self.selection.name)

    def open(self) -> bool:
        """See Below."""
        name = self.selection.name
        if not self.selection.leave() or self.opened is None:
            return False
        self.opened(name)
        return True

    def leave(self) -> bool:
        """See Below."""
        return self.selection.leave()

    def toggle_tasks(self) -> None:
        """See Below."""
        self.tasks_shown = not self.tasks_shown

    # ── what it is drawn from ─────────────────────────────────────────────────────────────────────────────────

    def _beside(self, members: list[MemberNow]) -> Beside:
        names = [one.name for one in members]
        return Beside(
            {name: call for name in names if (call := self.activity.now(name))},
            {name: behind for name in names if (behind := self.activity.behind(name))},
        )

    def _read(self) -> None:
        task = asyncio.create_task(self._read_board(), name="reading the task list")
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_board(self) -> None:
        with suppress(TeamwrightError):  # what cannot be read is not shown; whoever works on it says why
            await self.scene.read(self.board)
        self.changed()

    def _wake(self, now: float, since: list[float]) -> None:
        self._stop_timer()
        if since:
            wait = max(min(changes_in(now - one) for one in since), TICK_S)
            self._timer = asyncio.get_running_loop().call_later(wait, self.changed)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
