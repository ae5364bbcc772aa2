"""One person at one session: what they type goes in, what happens comes out, the lead works in between.

Two loops, one that reads lines and one that runs the lead's turns, on the event loop of the session. No key ends
more than it says; members are ended by name or on leaving. Knows sessions through `app`, and an editor.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import field

from teamwright.app.looking.now import OfSession
from teamwright.app.looking.system import mask_secrets
from teamwright.app.result import Result
from teamwright.app.session import Session
from teamwright.app.skills.calling import command_lines
from teamwright.app.talking import (
    lead_was_interrupted,
    member_names,
    members_at_work,
    run_in_shell,
    say_to_lead,
    write_to,
)
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import RequestClosed, RequestOpened, TeamEvent
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.activity import Activity
from teamwright.ui.terminal.called import Calls
from teamwright.ui.terminal.commands import RUN, background_lines, unknown_lines
from teamwright.ui.terminal.editing.completion import Candidate, candidates
from teamwright.ui.terminal.editing.editor import Editor, Withdrawn
from teamwright.ui.terminal.keys import WINDOW_S, Act, Interrupts
from teamwright.ui.terminal.leaving import Ending, choose_ending
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.panel.panel import Panel
from teamwright.ui.terminal.parsing import NOTE_LINES, Called, Command, Mail, Note, Prompt, Unknown, leading_word, parse
from teamwright.ui.terminal.resuming.going_on import Next, next_session
from teamwright.ui.terminal.text import clean, folded
from teamwright.ui.terminal.typing import Typing
from teamwright.ui.terminal.viewing.view import View
from teamwright.ui.terminal.wayback import diff_shown, undo_shown
from teamwright.ui.window import window_size


@dataclass(slots=True)
class Host:
    """Hosts the session until its person leaves, or a cap is spent. `editor` is set before `run`."""

    session: Session
    narrator: Narrator
    typing: Typing = field(init=False)
    calls: Calls = field(init=False)
    view: View = field(init=False)
    panel: Panel = field(init=False)
    activity: Activity = field(default_factory=Activity)
    last: Result | None = None
    cut: list[str] = field(default_factory=list[str])
    going: Next | None = None
    """The session that is gone on with when this one was left."""
    interrupts: Interrupts = field(default_factory=Interrupts)
    _turn: asyncio.Task[bool] | None = None
    _leaving: bool = False
    _by_hand: bool = False
    _moving: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def __post_init__(self) -> None:
        self.calls = Calls(self.session, self.show, self._show_error)
        self.typing = Typing(self.narrator, self.show)
        self.view = View(self.session, self.narrator, self.show)
        viewed, paint = (lambda: self.view.name), self.narrator.paint
        scene, masked = OfSession(self.session), self._masked
        self.panel = Panel(scene, self.activity, paint, viewed, self._open, masked, changed=self._refresh)

    @property
    def editor(self) -> Editor:
        """Where the person types."""
        return self.typing.editor

    @editor.setter
    def editor(self, editor: Editor) -> None:
        self.typing.editor = editor

    async def run(self, prompt: str | None) -> Ending:
        """Until the person leaves, or the session is over by itself (`last` says how). `cut` names who was at work."""
        unsubscribe = self.session.log.subscribe(lambda _number, event: self._happened(event))
        self.panel.begin()
        if prompt:
            self._first(prompt)
        reading = asyncio.create_task(self._read_lines(), name="reading lines")
        working = asyncio.create_task(self._work(), name="turns of the lead")
        try:
            await asyncio.wait({reading, working}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else working.result()
        finally:
            self.panel.end()
            await self.calls.cancel()
            await self._end_turn()
            for task in (reading, working):
                task.cancel()
            await asyncio.gather(reading, working, return_exceptions=True)
            unsubscribe()

    # ── what the editor asks ──────────────────────────────────────────────────────────────────────────────────

    @property
    def lead_works(self) -> bool:
        """Whether a turn of the lead runs."""
        return self._turn is not None and not self._turn.done() and self.session.lead.busy

    def interrupted(self, line: bool) -> Act:
        """What Ctrl-C does now; ending the turn and saying so is done here."""
        runs = self._turn is not None and not self._turn.done()
        if self._leaving and not runs and not line:
            self._turn_was_ended()  # what sees all through was about to begin
            return Act.END_TURN
        if self.view.member and not self._leaving:
            return self._interrupted_viewed(line)
        # Waiting to leave is the lead's work too, even while it has nothing to do itself.
        works = self.lead_works or (self._leaving and runs)
        if not works and not line and self.calls.running:
            self.calls.interrupt()
            return Act.END_TURN
        act = self.interrupts.pressed(line=line, lead_works=works, now=time.monotonic())
        if act is Act.END_TURN and self._turn is not None:
            self._by_hand = True
            self._turn.cancel()
        elif act is Act.HINT:
            self._tell([self._hint()])
        return act

    def _interrupted_viewed(self, line: bool) -> Act:
        """In a member's view Ctrl-C is about that member, and about nobody else."""
        act = self.interrupts.pressed(line=line, lead_works=self.view.works, now=time.monotonic())
        if act is Act.END_TURN:
            self.view.interrupt()
        elif act is Act.HINT:
            self._tell([f"{self._hint()} Esc goes back to the lead."])
        return act

    def escaped(self) -> None:
        """What Esc on an empty line does."""
        self.view.back()

    def _open(self, name: str) -> None:
        """View a member, or the lead again."""
        self.narrator.width = self._width()
        try:
            self.view.open(name)
        except TeamwrightError as problem:
            self._show_error(problem)

    def background(self) -> None:
        """What Ctrl-B on an empty line does: nobody waits any more for what could go on in the background."""
        task = asyncio.create_task(self._background(), name="to the background")
        self._moving.add(task)
        task.add_done_callback(self._moving.discard)

    async def _background(self) -> None:
        self._tell(await background_lines(self.session))

    def offered(self, before: str) -> list[Candidate]:
        """What Tab offers."""
        written = [(one.name, one.about) for one in command_lines(self.session)] if before.startswith("/") else []
        return candidates(before, member_names(self.session), self.session.maker.cwd, written)

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────

    def show(self, lines: Sequence[str]) -> None:
        """Put lines above the prompt, without secrets."""
        if lines:
            self.editor.show(self._masked("".join(f"{line}\n" for line in lines)))

    def _tell(self, lines: Sequence[str]) -> None:
        """As `show`, for words without colours: in a narrow window they are broken between words."""
        self.show(folded(lines, self._width()))

    def _masked(self, text: str) -> str:
        env = self.session.options.env
        return mask_secrets(text, os.environ if env is None else env)

    def _happened(self, event: TeamEvent) -> None:
        self.narrator.width = self._width()
        if self.view.before(event):
            return
        self.activity.note(event)
        self.panel.note(event)
        match event:
            case RequestOpened():
                self.typing.opened(event)
            case RequestClosed():
                self.typing.closed(event)
            case _:
                pass
        self.show(self.narrator.lines(event))
        self.view.after(event)
        self.editor.refresh()

    def _refresh(self) -> None:
        self.editor.refresh()

    # ── the lead's turns ──────────────────────────────────────────────────────────────────────────────────────

    async def _work(self) -> Ending:
        """Turns as prompts and mail ask for them, until a cap is spent or all was seen through."""
        while True:
            if not self._leaving:
                await self.session.lead.wait()
            self._turn = asyncio.create_task(self._see_through() if self._leaving else self._one_turn())
            await asyncio.wait({self._turn})
            self.view.end_of_turn()
            if self._turn.cancelled():
                self._turn_was_ended()
            elif self._turn.result():
                return Ending.OVER
            self.editor.refresh()

    async def _one_turn(self) -> bool:
        """A turn on what waits; whether the session is over with it."""
        try:
            end = await self.session.lead.turn()
        except TeamwrightError as problem:
            self._ended(await self.session.result("failed", self.session.lead.last.text, error=problem))
            return False
        if end is None:
            return False
        if end.stop == "done":
            self.last = None
            return False
        self._ended(await self.session.end_of(end))
        return end.capped

    async def _see_through(self) -> bool:
        """All that is open, until the team is done; whether the person still wants to leave then."""
        self._ended(await self.session.run(()))
        return self._leaving

    def _ended(self, result: Result) -> None:
        self.last = result
        if result.error is not None:
            self._show_error(result.error)

    def _turn_was_ended(self) -> None:
        self.activity.ended(LEAD)
        waited, self._leaving = self._leaving, False
        self.going = None if waited else self.going
        if self._by_hand and not waited:
            lead_was_interrupted(self.session)
        self._by_hand = False
        go_on = f"; {names} (/stop NAME ends one)" if (names := self._going_on()) else ""
        head = "no longer waiting to leave" if waited else "the lead's turn was ended"
        self._tell([f"{head}{go_on}. Nothing is lost: your next line continues it."])

    async def _end_turn(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.cancel()
            await asyncio.wait({self._turn})

    # ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read_lines(self) -> Ending:
        while True:
            try:
                if (line := await self.typing.line()) is not None:
                    self.interrupts.typed()
                    await self._said(line)
            except EOFError:
                ending = await self._ending()
                if ending not in {Ending.STAY, Ending.WAIT}:
                    return ending

    async def _said(self, text: str) -> None:
        """Do what a line says. Raises EOFError for /quit."""
        if text.startswith("!") and (command := text[1:].strip()):
            run_in_shell(self.session, command)
            return
        names = member_names(self.session)
        is_path = (self.session.maker.cwd / leading_word(text).rstrip(",:")).exists()
        written = self._written()
        line = parse(text, names, is_path, written)
        try:
            match line:
                case Command():
                    await self._command(line)
                case Called():
                    self.calls.start(line)
                case Unknown():
                    self._tell(unknown_lines(line, written))
                case Note():
                    self._tell(NOTE_LINES)
                case Mail():
                    await write_to(self.session, line.to, line.text)
                case Prompt() if self.view.member and line.text.strip():
                    await write_to(self.session, self.view.member, line.text)
                case Prompt():
                    self._prompt(line.text)
        except TeamwrightError as problem:
            self._show_error(problem)

    async def _command(self, line: Command) -> None:
        """Run a command of the terminal. Raises EOFError for /quit, and for /resume once it is known with what."""
        viewed = self.view.member
        match line:
            case Command(name="/quit"):
                raise EOFError
            case Command(name="/resume"):
                width = self._width()
                self.going = await next_session(self.session, line.rest, self.editor, self.show, width)
                if self.going is not None:
                    raise EOFError
            case Command(name="/view"):
                self._open(line.rest.strip().removeprefix("@") or LEAD)
            case Command(name="/stop", rest="") if viewed:
                await self._stop_viewed(viewed)
            case Command(name="/interrupt", rest="") if viewed:
                self.view.interrupt()
            case Command(name="/requests"):
                questions = self.typing.questions
                self.show([] if questions.again() else questions.lines(self.narrator))
            case Command(name="/diff"):
                self.show(await diff_shown(self.session, line.rest, self.narrator.paint))
            case Command(name="/undo"):
                self._tell(await undo_shown(self.session, line.rest, self.show, self._agrees))
            case _:
                self._tell(await RUN[line.name](self.session, line.rest))

    async def _stop_viewed(self, name: str) -> None:
        """End the viewed member for good, once the person has said so."""
        if await self._agrees(f"end {clean(name)} for good? [y/n] "):
            self._tell(await RUN["/stop"](self.session, name))
        else:
            self.show([f"  {clean(name)} stays"])

    async def _agrees(self, question: str) -> bool:
        """Ask the person a question of the terminal and return True for yes."""
        try:
            said = await self.editor.answer(question)
        except (Withdrawn, EOFError):
            return False
        return said.strip().lower() in {"y", "yes"}

    def _written(self) -> list[str]:
        return [one.name for one in command_lines(self.session)]

    def _first(self, text: str) -> None:
        """What was typed behind the program's name: a command that somebody wrote, else words for the lead."""
        line = parse(text, (), is_path=True, written=self._written())
        if isinstance(line, Called):
            self.calls.start(line)
        elif isinstance(line, Unknown):
            self._tell(unknown_lines(line, self._written()))
        else:
            self._prompt(text)

    def _prompt(self, text: str) -> None:
        if not text.strip():
            return
        try:
            say_to_lead(self.session, text)
        except TeamwrightError as problem:
            self._show_error(problem)
            return
        if self.lead_works:
            self.show(["  the lead reads it before its next step"])

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _ending(self) -> Ending:
        """How to leave, or that the person stays. Waiting begins here and ends the session by itself."""
        self.cut = [*([LEAD_ALIAS] if self.lead_works else []), *members_at_work(self.session)]
        ending = await choose_ending(self.editor, self._tell, self.cut)
        if ending is Ending.STAY:
            self.going = None
        if ending is Ending.WAIT:
            self._leaving = True
            self.session.team.changed.set()
            self.show(["waiting; Ctrl-C stays"])
        return ending

    def _hint(self) -> str:
        go_on = f" {names} during this time." if (names := self._going_on()) else ""
        return f"Ctrl-C again within {WINDOW_S:.0f} s leaves, as does Ctrl-D.{go_on}"

    def _going_on(self) -> str:
        """Who is at work and goes on, in words; nothing when nobody is."""
        names = members_at_work(self.session)
        return f"{', '.join(names)} {'goes' if len(names) == 1 else 'go'} on" if names else ""

    def _show_error(self, problem: TeamwrightError) -> None:
        self._tell([clean(line) for line in problem.render().split("\n")])

    def _width(self) -> int:
        return window_size().columns
