"""The terminal of one member: its conversation as it happens, and a line to write to it.

A typed line becomes a message; keys end its turn, never its process. It is built from the parts of the lead's terminal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from teamwright.member_process.terminal_control import OwnTerminalControl
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import (
    AssistantText,
    MessageSent,
    RequestClosed,
    RequestOpened,
    TeamEvent,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD, nearest
from teamwright.session.command_start import mask_secrets
from teamwright.session.options import parse_slash_command
from teamwright.ui.background_choice import choose_foreground, moved_lines
from teamwright.ui.display_text import clean, cut, fold_lines, one_line, window_size
from teamwright.ui.terminal.agent_output import (
    AgentTextOutput,
    RunningOutput,
    block_renderer,
    ends_text,
    rendered_lines,
)
from teamwright.ui.terminal.conversation_view import received_lines
from teamwright.ui.terminal.editor_protocol import Editor, EditorCallbacks, ReadCancelled
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.interruptible_input import LineInput
from teamwright.ui.terminal.keys import HELP_COLUMN, LEAVE_WINDOW_S, InterruptAction, InterruptState
from teamwright.ui.terminal.line_completion import Candidate
from teamwright.ui.terminal.line_parser import NOTE_LINES, bare_command, is_note
from teamwright.ui.terminal.panel import Panel, RunningCalls
from teamwright.ui.terminal.request_dialog import RequestDialog
from teamwright.ui.terminal.request_lines import context_lines, cost_lines, mode_meaning_lines, task_lines
from teamwright.views.status import MemberScreen, member_cost


class MemberTerminal:
    """The terminal of a member, until the member ends. `editor` is set before the first output.

    The member waits `grace_s` seconds without a lead; None: no limit.
    """

    def __init__(
        self,
        control: OwnTerminalControl,
        formatter: EventFormatter,
        team: str,
        grace_s: float | None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self.control = control
        self.formatter = formatter
        self.team = team
        self.grace_s = grace_s
        self.running_calls = RunningCalls()
        self.interrupts = InterruptState()
        self._leave_hinted_at = float("-inf")
        self.line_input = LineInput(self.formatter, self.show, RequestDialog(run_command=self._run_at_request))
        renderer = block_renderer(env, markdown=self.control.member.settings.markdown, colors=self.formatter.paint.on)
        self.texts = AgentTextOutput(self.show, _mask, renderer)
        self.panel = Panel(
            MemberScreen(self.control),
            self.running_calls,
            self.formatter.paint,
            lambda: LEAD,
            None,
            _mask,
            changed=lambda: self.editor.refresh(),
        )
        self.running_output = RunningOutput(
            self.formatter,
            self.running_calls,
            lambda: self.control.name,
            self.control.running_command,
            _mask,
            lambda: self.editor.refresh(),
        )

    @property
    def editor(self) -> Editor:
        """The editor in which the person types."""
        return self.line_input.editor

    def editor_callbacks(self, history: Path) -> EditorCallbacks:
        """Return the callbacks for the editor."""
        return EditorCallbacks(
            on_interrupt=self.on_interrupt,
            complete=complete,
            history=history,
            colors=self.formatter.paint.on,
            on_background=self.on_background,
            on_escape=self.on_escape,
            status_area=self.panel,
            text_rows=lambda: [*self.texts.open_rows(), *self.running_output.rows()],
        )

    # ── callbacks of the editor ─────────────────────────────────────────────────────────────────────────────────

    def on_interrupt(self, line: bool) -> InterruptAction:
        """Handle Ctrl-C: clear the line, end the turn, or show how to end the member. It never closes the terminal."""
        act = self.interrupts.press(line=line, is_working=self.control.is_working, now=time.monotonic())
        if act is InterruptAction.CLEAR:
            return act
        if act is not InterruptAction.END_TURN or not self.control.interrupt():
            self.show([f"  no turn of {self.control.name} runs; /stop ends {self.control.name} for good"])
        return InterruptAction.END_TURN

    def on_escape(self) -> str:
        """Handle Esc on an empty line. It sends nothing."""
        if self.control.is_working:
            self.control.interrupt()
        return ""

    def on_background(self) -> None:
        """Handle Ctrl-B on an empty line."""
        self.show(background_lines(self.control))

    # ── events ─────────────────────────────────────────────────────────────────────────────────────────────────

    def show(self, lines: Sequence[str]) -> None:
        """Print lines above the prompt, with secrets masked."""
        if lines:
            self.editor.show(_mask("".join(f"{line}\n" for line in lines)))

    def greet(self) -> None:
        """Print the greeting."""
        control = self.control
        self.show(
            greeting_lines(
                control.name, self.team, control.model, control.mode, control.earlier_messages, self._width()
            )
        )
        self.show([f"  {clean(warning)}" for warning in control.member.warnings])

    def on_event(self, event: TeamEvent) -> None:
        """Show an event of the member, or of its sub-agents."""
        self.formatter.width = self._width()
        mine = event.member == self.control.name
        if isinstance(event, TextDelta):
            if mine:
                self.texts.add(event.member, event.text)
                self.editor.refresh()
            return
        if isinstance(event, ThinkingDelta):
            return
        if mine and ends_text(event):
            self.texts.end(event.member)
        if isinstance(event, AssistantText):
            is_received = mine and event.message["role"] == "user"
            self.show(received_lines(event.content, self.control.name, self.formatter) if is_received else [])
            return
        self.running_calls.note(event)
        self.running_output.note(event)
        self.panel.note(event)
        if isinstance(event, TurnEnded) and mine:
            self.running_calls.clear_member(event.member)
            self.show([] if event.stop == "done" else [f"  its turn has ended: {clean(event.detail or event.stop)}"])
        elif not (isinstance(event, MessageSent) and event.wire == "idle_notification"):
            self.texts.print(self.formatter.lines(event))
        self.editor.refresh()

    def on_lead_change(self, is_there: bool) -> None:
        """Show that the lead has ended or is back."""
        self.show(lead_change_lines(self.control.name, is_there, self.grace_s))
        self.editor.refresh()

    def on_request(self, request: RequestOpened) -> None:
        """Show a request of the member; any other terminal may answer it too."""
        self.line_input.add_request(request)

    def on_answer(self, event: RequestClosed) -> None:
        """Remove a closed request; an answer from another terminal is shown."""
        questions = self.line_input.requests
        if event.request in {one.request for one in (*questions.waiting, *questions.postponed)}:
            self.show(["  it was answered in another terminal, or is no longer open"])
        self.line_input.remove_request(event)

    # ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def read_lines(self) -> None:
        """Execute each typed line until the member ends."""
        self.panel.begin()
        try:
            while not self.control.is_ended:
                await self._read_line()
        finally:
            self.panel.end()
            self.running_output.end()

    async def _read_line(self) -> None:
        try:
            if (line := await self.line_input.read_line()) is not None:
                self.interrupts.reset()
                await self._handle_line(line)
        except EOFError:
            self._leave_on_second_press()

    async def _handle_line(self, line: str) -> None:
        called = parse_command(line)
        try:
            if called is None:
                await self._words(line)
            elif called[0] == "/stop":
                await self._stop()
            elif called[0] == "/requests":
                questions = self.line_input.requests
                self.show([] if questions.restore_postponed() else questions.lines(self.formatter))
            elif called[0] == "/btw":
                self.control.ask(called[1], self._show_answer)
            elif (run := HANDLERS.get(called[0])) is not None:
                self._show_folded(await run(self.control, called[1]))
            else:
                self._show_folded(unknown_command_lines(called[0]))
        except TeamwrightError as problem:
            self._show_folded([clean(line) for line in problem.render().split("\n")])

    async def _run_at_request(self, line: str) -> bool:
        """Run a command that was typed at a request; the request waits."""
        called = parse_command(line)
        if called is None or called[0] == "/requests" or called[0] not in COMMAND_NAMES:
            return False
        await self._handle_line(line)
        return True

    async def _words(self, line: str) -> None:
        """Send a line to the member, unless it is a bare command or a note, which is not for a model."""
        bare = bare_command(line)
        if bare == "/quit":
            self._leave_on_second_press()
        elif bare is not None:
            self._show_folded(await HANDLERS[bare](self.control, ""))
        elif is_note(line):
            self._show_folded(NOTE_LINES)
        elif line.strip():
            await self.control.send(line)

    def _show_folded(self, lines: Sequence[str]) -> None:
        """Print lines without colours, broken between words in a narrow window."""
        self.show(fold_lines(lines, self._width()))

    async def _stop(self) -> None:
        """End the member for good after the person confirmed."""
        name = clean(self.control.name)
        try:
            reply = await self.editor.answer(f"end {name} for good? [y/n] ")
        except ReadCancelled:
            reply = ""
        if reply.strip().lower() in {"y", "yes"}:
            await self.control.stop()
        else:
            self.show([f"  {name} stays"])

    def _show_answer(self, text: str) -> None:
        self.show(rendered_lines(_mask(text), self.texts.render, self._width()))

    def _leave_on_second_press(self) -> None:
        """Leave on the second Ctrl-D within the window. A terminal that was closed sends the second one at once."""
        now = time.monotonic()
        before = self._leave_hinted_at
        self._leave_hinted_at = now
        if now - before <= LEAVE_WINDOW_S:
            self.control.leave()
            return
        name = clean(self.control.name)
        again = f"Ctrl-D again within {LEAVE_WINDOW_S:.0f} s closes this terminal, and ends {name} with it"
        self.show([f"{again}; its open tasks go back to the list"])

    def _width(self) -> int:
        return window_size().columns


def _mask(text: str) -> str:
    return mask_secrets(text, os.environ)


MIN_WIDTH = 20


def greeting_lines(name: str, team: str, model: str, mode: str, known_messages: int, width: int) -> list[str]:
    """Return the greeting lines. `known_messages` is the number of messages of a resumed conversation."""
    who = clean(name)
    lines = [
        f"{who} · team {clean(team)} · {clean(model)} · {clean(mode)}",
        f"  what you type goes to {who} as mail from you · /help",
        "  Esc or Ctrl-C ends its turn · /stop ends it · closing the terminal ends it too",
    ]
    if known_messages:
        lines.append(f"  it continues; its conversation has {known_messages} messages")
    return [cut(line, max(width - 1, MIN_WIDTH)) for line in lines]


def lead_change_lines(name: str, is_back: bool, grace_s: float | None) -> list[str]:
    """Return the lines that the lead has ended, and how long the member waits, or that the lead is back."""
    if is_back:
        return [f"the lead of {name} is back"]
    stays = "until it is back" if grace_s is None else f"{grace_s:.0f} s for it to come back, and keeps its place"
    return [f"the lead of {name} is gone: {name} stays {stays}"]


COMMANDS = {
    "/help": "this list",
    "/tasks": "the task list of the team, and what it runs beside its turn",
    "/requests": "what it asks you; asks again what you put off",
    "/btw QUESTION": "ask it in passing, also while it works; it will not remember it",
    "/context": "what fills its window, and when it will be compacted",
    "/compact KEEP": "continue from a summary that keeps these points",
    "/cost": "tokens and money that it used since its process began",
    "/mode MODE": "the permission modes; another one for it",
    "/bg NAME": "move what it waits for to the background; of several it lists them for your choice",
    "/stop": "end it for good; its open tasks go back to the list",
}
"""Commands as /help lists them. `MemberTerminal` handles `/stop`, `/btw` and `/requests` itself."""

COMMAND_NAMES = tuple(usage.split()[0] for usage in COMMANDS)

KEY_LINES = (
    f"{'Esc, Ctrl-C':<{HELP_COLUMN}} ends its turn; it stays, and waits for your words",
    f"{'Ctrl-B':<{HELP_COLUMN}} on an empty line: what it waits for itself moves to the background",
    f"{'Alt-Enter':<{HELP_COLUMN}} a new line",
    "closing the terminal ends it like /stop; while its lead is gone it keeps its place",
)


def parse_command(line: str) -> tuple[str, str] | None:
    """Return a typed command with its slash and its arguments; None for other text."""
    called = parse_slash_command(line.strip())
    return None if called is None else (f"/{called[0].lower()}", called[1].strip())


async def complete(before: str) -> list[Candidate]:
    """Return the completions for the text before the cursor."""
    if not before.startswith("/") or " " in before:
        return []
    return [Candidate(name, len(before), "command") for name in COMMAND_NAMES if name.startswith(before.lower())]


def unknown_command_lines(name: str) -> list[str]:
    """Return the lines for an unknown command."""
    close = nearest(name, COMMAND_NAMES)
    return [
        f"  there is no {clean(name)} at a member's terminal" + (f"; did you mean {close}?" if close else ""),
        f"  there are  {' '.join(COMMAND_NAMES)}",
    ]


def background_lines(control: OwnTerminalControl) -> list[str]:
    """Move to the background what the member itself waits for, and return lines that name it."""
    return moved_lines(control.move_to_background())


CommandHandler: TypeAlias = Callable[[OwnTerminalControl, str], Awaitable[list[str]]]


async def _help(_control: OwnTerminalControl, _rest: str) -> list[str]:
    return [
        *(f"  {usage:<{HELP_COLUMN}} {about}" for usage, about in COMMANDS.items()),
        *(f"  {line}" for line in KEY_LINES),
    ]


async def _tasks(control: OwnTerminalControl, _rest: str) -> list[str]:
    return [*task_lines(await control.tasks()), *(f"  └ {one_line(line)}" for line in control.running())]


async def _context(control: OwnTerminalControl, _rest: str) -> list[str]:
    return context_lines(control.context())


async def _compact(control: OwnTerminalControl, rest: str) -> list[str]:
    return [f"  {clean(control.name)} does it before its next model call"] if control.compact(rest) else []


async def _cost(control: OwnTerminalControl, _rest: str) -> list[str]:
    return cost_lines(await member_cost(control))


async def _mode(control: OwnTerminalControl, rest: str) -> list[str]:
    if not rest:
        return [f"  {clean(control.name)} is in mode {control.mode}", "", *mode_meaning_lines()]
    if len(rest.split()) > 1:
        return ["  /mode MODE: one mode, for this member"]
    return [f"  {clean(await control.set_mode(rest))}"]


async def _background(control: OwnTerminalControl, rest: str) -> list[str]:
    chosen, lines = choose_foreground(control.foreground(), rest)
    return moved_lines(control.move_to_background(chosen)) if chosen else lines


HANDLERS: dict[str, CommandHandler] = {
    "/help": _help,
    "/tasks": _tasks,
    "/context": _context,
    "/compact": _compact,
    "/cost": _cost,
    "/mode": _mode,
    "/bg": _background,
}
"""The function of each command."""
