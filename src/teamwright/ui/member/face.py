"""One person at the terminal of one member: its conversation as it happens, and a line to write to it.

Whatever is typed becomes mail; keys end its turn, never its process. Built of the parts of the lead's terminal. Knows
what may be done there through `app`, and an editor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from teamwright.app.looking.system import mask_secrets
from teamwright.app.members.present import OfMember
from teamwright.app.members.seat import Seat
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import (
    MessageSent,
    RequestClosed,
    RequestOpened,
    Spoken,
    TeamEvent,
    TextDelta,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.ui.member.commands import RUN, background_lines, command, offered, unknown_lines
from teamwright.ui.member.words import header, lead_lines
from teamwright.ui.terminal.activity import Activity
from teamwright.ui.terminal.editing.editor import Editor, Wiring, Withdrawn
from teamwright.ui.terminal.keys import WINDOW_S, Act, Interrupts
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.panel.panel import Panel
from teamwright.ui.terminal.parsing import NOTE_LINES, bare_command, is_note
from teamwright.ui.terminal.stream import LineStream
from teamwright.ui.terminal.text import clean, folded
from teamwright.ui.terminal.typing import Typing
from teamwright.ui.terminal.viewing.told import told_lines
from teamwright.ui.window import window_size


@dataclass(slots=True)
class Face:
    """Shows the member and hears its person, until it is over. `editor` is set before anything is shown."""

    seat: Seat
    narrator: Narrator
    team: str
    grace_s: float | None
    """How long it stays without a lead, in seconds; None: for ever."""
    typing: Typing = field(init=False)
    panel: Panel = field(init=False)
    activity: Activity = field(default_factory=Activity)
    interrupts: Interrupts = field(default_factory=Interrupts)
    _stream: LineStream = field(default_factory=LineStream)
    _left_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.typing = Typing(self.narrator, self.show)
        self.panel = Panel(OfMember(self.seat), self.activity, self.narrator.paint, lambda: LEAD, None, _masked)
        self.panel.changed = lambda: self.editor.refresh()
        self.seat.tasks_changed = self.panel.tasks_changed

    @property
    def editor(self) -> Editor:
        """Where the person types."""
        return self.typing.editor

    def wiring(self, history: Path) -> Wiring:
        """What an editor asks of this."""
        return Wiring(
            interrupted=self.interrupted,
            offered=offered,
            history=history,
            colors=self.narrator.paint.on,
            background=self.background,
            escaped=self.escaped,
            below=self.panel,
        )

    # ── what the editor asks ──────────────────────────────────────────────────────────────────────────────────

    def interrupted(self, line: bool) -> Act:
        """What Ctrl-C does now: clears the line, ends the turn, or says how to end more; it never leaves."""
        act = self.interrupts.pressed(line=line, lead_works=self.seat.works, now=time.monotonic())
        if act is Act.CLEAR:
            return act
        if act is not Act.END_TURN or not self.seat.interrupt():
            self.show([f"  no turn of {self.seat.name} runs; /stop ends {self.seat.name} for good"])
        return Act.END_TURN

    def escaped(self) -> None:
        """What Esc does on an empty line."""
        if self.seat.works:
            self.seat.interrupt()

    def background(self) -> None:
        """What Ctrl-B does on an empty line."""
        self.show(background_lines(self.seat))

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────

    def show(self, lines: Sequence[str]) -> None:
        """Put lines above the prompt, without secrets."""
        if lines:
            self.editor.show(_masked("".join(f"{line}\n" for line in lines)))

    def greet(self) -> None:
        """Say who this is."""
        seat = self.seat
        self.show(header(seat.name, self.team, seat.model, seat.mode, seat.held, self._width()))
        self.show([f"  {clean(warning)}" for warning in seat.member.warnings])

    def happened(self, event: TeamEvent) -> None:
        """Show an event of the member, or of its sub-agents."""
        self.narrator.width = self._width()
        mine = event.member == self.seat.name
        if isinstance(event, TextDelta):
            self.show([clean(line) for line in self._stream.add(event.text)] if mine else [])
            return
        if isinstance(event, Spoken):
            told = mine and event.message["role"] == "user"
            self.show(told_lines(event.content, self.seat.name, self.narrator) if told else [])
            return
        if mine:
            self.show([clean(line) for line in self._stream.end()])
        self.activity.note(event)
        self.panel.note(event)
        if isinstance(event, TurnEnded) and mine:
            self.activity.ended(event.member)
            self.show([] if event.stop == "done" else [f"  its turn has ended: {clean(event.detail or event.stop)}"])
        elif not (isinstance(event, MessageSent) and event.wire == "idle_notification"):
            self.show(self.narrator.lines(event))
        self.editor.refresh()

    def lead_moved(self, there: bool) -> None:
        """The lead is gone, or back."""
        self.show(lead_lines(self.seat.name, there, self.grace_s))
        self.editor.refresh()

    def asked(self, request: RequestOpened) -> None:
        """The member asks its person something; any other terminal may answer it too."""
        self.typing.opened(request)

    def answered(self, event: RequestClosed) -> None:
        """A request is over; what was not answered here was answered elsewhere."""
        questions = self.typing.questions
        if event.request in {one.request for one in (*questions.waiting, *questions.aside)}:
            self.show(["  it was answered elsewhere, or is no longer open"])
        self.typing.closed(event)

    # ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def read_lines(self) -> None:
        """Do what each line says, until the member is over."""
        self.panel.begin()
        try:
            while not self.seat.over:
                await self._read_line()
        finally:
            self.panel.end()

    async def _read_line(self) -> None:
        try:
            if (line := await self.typing.line()) is not None:
                self.interrupts.typed()
                await self._said(line)
        except EOFError:
            self._would_leave()

    async def _said(self, line: str) -> None:
        called = command(line)
        try:
            if called is None:
                await self._words(line)
            elif called[0] == "/stop":
                await self._stop()
            elif called[0] == "/requests":
                questions = self.typing.questions
                self.show([] if questions.again() else questions.lines(self.narrator))
            elif (run := RUN.get(called[0])) is not None:
                self._tell(await run(self.seat, called[1]))
            else:
                self._tell(unknown_lines(called[0]))
        except TeamwrightError as problem:
            self._tell([clean(line) for line in problem.render().split("\n")])

    async def _words(self, line: str) -> None:
        """Write a line to the member, unless it is a word or a note that is not meant for a model."""
        bare = bare_command(line)
        if bare == "/quit":
            self._would_leave()
        elif bare is not None:
            self._tell(await RUN[bare](self.seat, ""))
        elif is_note(line):
            self._tell(NOTE_LINES)
        elif line.strip():
            await self.seat.write(line)

    def _tell(self, lines: Sequence[str]) -> None:
        """Words without colours: in a narrow pane they are broken between words."""
        self.show(folded(lines, self._width()))

    async def _stop(self) -> None:
        """End the member for good, once the person has said so."""
        name = clean(self.seat.name)
        try:
            said = await self.editor.answer(f"end {name} for good? [y/n] ")
        except Withdrawn:
            said = ""
        if said.strip().lower() in {"y", "yes"}:
            await self.seat.stop()
        else:
            self.show([f"  {name} stays"])

    def _would_leave(self) -> None:
        """Ctrl-D, or a terminal that is gone: that says so again at once."""
        now, before = time.monotonic(), self._left_at
        self._left_at = now
        if now - before <= WINDOW_S:
            self.seat.leave()
            return
        name = clean(self.seat.name)
        again = f"Ctrl-D again within {WINDOW_S:.0f} s closes this terminal, and ends {name} with it"
        self.show([f"{again}; its open tasks go back to the list"])

    def _width(self) -> int:
        return window_size().columns


def _masked(text: str) -> str:
    return mask_secrets(text, os.environ)
