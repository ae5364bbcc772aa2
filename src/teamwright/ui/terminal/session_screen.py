"""The screen of one session: typed lines go in, events are shown, and the lead works at the same time.

Two loops run on the event loop of the session: one reads lines, one runs the lead's turns. Keys never end a member;
commands and leaving do. Depends on the package `session` and an editor.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import RequestOpened, TeamEvent
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.session.command_start import mask_secrets
from teamwright.session.control.action_table import running_command
from teamwright.session.control.person_actions import (
    member_names,
    members_at_work,
    prompt_lead,
    record_interrupt,
    run_in_shell,
    send_to_member,
)
from teamwright.session.notifications import notification_sender
from teamwright.session.options import parse_slash_command
from teamwright.session.result import Result
from teamwright.session.session import Session
from teamwright.session.slash_command_call import callable_names
from teamwright.ui.display_text import clean, fold_lines, window_size
from teamwright.ui.terminal.agent_output import (
    AgentTextOutput,
    MemberReports,
    RunningOutput,
    block_renderer,
    rendered_lines,
)
from teamwright.ui.terminal.commands import CommandCalls, ScreenCommands, Shortcuts
from teamwright.ui.terminal.conversation_view import ConversationView
from teamwright.ui.terminal.editor_protocol import Editor
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.interruptible_input import LineInput
from teamwright.ui.terminal.keys import InterruptAction, InterruptState, Notifier, WindowFocus
from teamwright.ui.terminal.line_completion import SessionCompletion, TrackedFiles
from teamwright.ui.terminal.line_parser import (
    CustomCommand,
    LeadPrompt,
    MemberMail,
    Note,
    TerminalCommand,
    UnknownCommand,
    has_equivalent,
    leading_word,
    parse_line,
    unknown_command_lines,
)
from teamwright.ui.terminal.panel import RunningCalls, make_session_panel
from teamwright.ui.terminal.request_dialog import ANSWER_COMMANDS, RequestDialog
from teamwright.ui.terminal.session_switch import (
    LeaveChoice,
    NextSession,
    ask_how_to_leave,
    choose_next_session,
    choose_rewind,
    continuing_members,
    leave_hint,
)
from teamwright.ui.terminal.styles import is_plain_terminal
from teamwright.ui.terminal.suggestion import LineSuggestion


class SessionScreen:
    """The screen of a session until its person leaves or a cap is reached. `editor` is set before `run`."""

    def __init__(self, session: Session, formatter: EventFormatter, env: Mapping[str, str]) -> None:
        self.session = session
        self.formatter = formatter
        self.is_plain = is_plain_terminal(env)
        self.running_calls = RunningCalls()
        self.last_result: Result | None = None
        self.working_at_leave: list[str] = []
        self.next_session: NextSession | None = None
        """The session to open after this one."""
        self.interrupts = InterruptState()
        self._turn: asyncio.Task[bool] | None = None
        self._leaving = False
        self._ended_by_user = False
        self.completion = SessionCompletion(session, TrackedFiles(session.agent_factory.work_directory))
        self.shortcuts = Shortcuts(self.session, self._show_folded, self._show_error)
        sender = notification_sender(session, self._mask, lambda text: self._show_folded([f"  {text}"]))
        self.notifier = Notifier(sender, WindowFocus(), session.id, os.environ, session.options.home)
        requests = RequestDialog(run_command=self._run_at_request)
        self.line_input = LineInput(self.formatter, self.show, requests)
        colors, markdown = self.formatter.paint.on, self.session.settings.markdown
        self.texts = AgentTextOutput(self.show, self._mask, block_renderer(env, markdown=markdown, colors=colors))
        self.command_calls = CommandCalls(self.session, self.show, self._show_error, self._text_lines)
        self.view = ConversationView(self.session, self.formatter, self.show, self.texts)
        self.reports = MemberReports(self.formatter, self.texts.render, self._mask)
        self.commands = ScreenCommands(
            session, formatter, self.view, self.line_input, self.show, self._show_folded, self._view_member
        )

        def viewed() -> str:
            return self.view.name

        def redraw() -> None:
            self.editor.refresh()

        commands = partial(running_command, self.session.agent_factory)
        self.suggestion = LineSuggestion(session, self._mask, redraw)
        self.running_output = RunningOutput(self.formatter, self.running_calls, viewed, commands, self._mask, redraw)
        self.panel = make_session_panel(
            self.session, self.running_calls, self.formatter.paint, viewed, self._view_member, redraw
        )

    @property
    def editor(self) -> Editor:
        """The editor in which the person types."""
        return self.line_input.editor

    @editor.setter
    def editor(self, editor: Editor) -> None:
        self.line_input.editor = editor

    async def run(self, prompt: str | None) -> LeaveChoice:
        """Run until the person leaves or the session ends (see `last_result`). `working_at_leave` names the working
        agents.
        """
        unsubscribe = self.session.log.subscribe(lambda _number, event: self._on_event(event))
        self.panel.begin()
        command = prompt if prompt and parse_slash_command(prompt) is not None else ""
        if prompt and not command:
            self._send_prompt(prompt)
        reading = asyncio.create_task(self._read_lines(command), name="reading lines")
        working = asyncio.create_task(self._run_turns(), name="turns of the lead")
        try:
            await asyncio.wait({reading, working}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else working.result()
        finally:
            self.panel.end()
            self.running_output.end()
            await self.command_calls.cancel()
            await self.suggestion.close()
            await self.notifier.sender.close()
            await self._end_turn()
            for task in (reading, working):
                task.cancel()
            await asyncio.gather(reading, working, return_exceptions=True)
            unsubscribe()

    # ── callbacks of the editor ─────────────────────────────────────────────────────────────────────────────────

    @property
    def is_lead_working(self) -> bool:
        """True while the lead is in a turn."""
        return self._turn is not None and not self._turn.done() and self.session.lead.busy

    def on_interrupt(self, line: bool) -> InterruptAction:
        """Handle Ctrl-C, which may interrupt the lead's turn, and return the action."""
        runs = self._turn is not None and not self._turn.done()
        if self._leaving and not runs and not line:
            self._on_turn_cancelled()  # waiting for the members was about to start
            return InterruptAction.END_TURN
        if self.view.viewed_member and not self._leaving:
            return self._interrupt_viewed(line)
        # Waiting to leave counts as work of the lead, even while it has no turn.
        works = self.is_lead_working or (self._leaving and runs)
        if not works and not line and self.command_calls.is_running:
            self.command_calls.interrupt()
            return InterruptAction.END_TURN
        act = self.interrupts.press(line=line, is_working=works, now=time.monotonic())
        if act is InterruptAction.END_TURN and self._turn is not None:
            self._ended_by_user = True
            self._turn.cancel()
        elif act is InterruptAction.HINT:
            self._show_folded([leave_hint(members_at_work(self.session))])
        return act

    def _interrupt_viewed(self, line: bool) -> InterruptAction:
        """Handle Ctrl-C in the view of a member: it concerns only that member."""
        act = self.interrupts.press(line=line, is_working=self.view.is_working, now=time.monotonic())
        if act is InterruptAction.END_TURN:
            self.view.interrupt()
        elif act is InterruptAction.HINT:
            self._show_folded([f"{leave_hint(members_at_work(self.session))} Esc returns to the lead."])
        return act

    def on_escape(self) -> str:
        """Handle Esc on an empty line: return from the viewed member, else interrupt the lead's turn.

        A second Esc at the idle lead returns the command to send; otherwise the text is empty.
        """
        is_second = self.interrupts.press_escape(time.monotonic())
        if self.view.viewed_member:
            self.view.return_to_lead()
        elif self.is_lead_working and not self._leaving:
            self.on_interrupt(False)
        elif is_second:
            return "/rewind"
        return ""

    def _view_member(self, name: str) -> None:
        """View a member, or return to the lead."""
        self.formatter.width = window_size().columns
        try:
            self.view.open(name)
        except TeamwrightError as problem:
            self._show_error(problem)

    def text_rows(self) -> list[str]:
        """Return the rows above the input line: text that still arrives, and output of a running command."""
        return [*self.texts.open_rows(), *self.running_output.rows()]

    # ── events ─────────────────────────────────────────────────────────────────────────────────────────────────

    def show(self, lines: Sequence[str]) -> None:
        """Print lines above the prompt, with secrets masked."""
        if lines:
            self.editor.show(self._mask("".join(f"{line}\n" for line in lines)))

    def _show_folded(self, lines: Sequence[str]) -> None:
        """Print lines without colours, broken between words in a narrow window."""
        self.show(fold_lines(lines, window_size().columns))

    def _mask(self, text: str) -> str:
        env = self.session.options.env
        return mask_secrets(text, os.environ if env is None else env)

    def _on_event(self, event: TeamEvent) -> None:
        self.formatter.width = window_size().columns
        if self.view.handle_before(event):
            self.editor.refresh()
            return
        if isinstance(event, RequestOpened):
            self.suggestion.clear()
        self.running_calls.note(event)
        self.running_output.note(event)
        self.panel.note(event)
        self.line_input.note(event)
        self.shortcuts.note(event)
        self.notifier.note(event)
        lines = self.reports.lines(event, self.view.name) or self.formatter.lines(event)
        self.texts.print(lines, is_urgent=event.member == "user")
        self.view.handle_after(event)
        self.editor.refresh()

    # ── the lead's turns ──────────────────────────────────────────────────────────────────────────────────────

    async def _run_turns(self) -> LeaveChoice:
        """Run turns for prompts and mail, until a cap is reached or the wait for all members is done."""
        while True:
            if not self._leaving:
                await self.session.lead.wait()
            self.suggestion.clear()
            self._turn = asyncio.create_task(self._run_until_done() if self._leaving else self._run_turn())
            await asyncio.wait({self._turn})
            self.view.flush_lead()
            if self._turn.cancelled():
                self._on_turn_cancelled()
            elif self._turn.result():
                return LeaveChoice.ENDED
            elif self._may_suggest():
                self.suggestion.ask()
            self.editor.refresh()

    def _may_suggest(self) -> bool:
        """Return True when a suggestion is of use: the turn ended well, and nothing else works or waits."""
        is_done = self.last_result is None and self.session.lead.last_end.stop == "done" and not self._leaving
        waits = self.line_input.requests.waiting or members_at_work(self.session)
        return is_done and not waits and not self.is_plain

    async def _run_turn(self) -> bool:
        """Run a turn for the waiting input. Returns True when the session ends with it."""
        try:
            end = await self.session.lead.run_turn()
        except TeamwrightError as problem:
            self._note_result(await self.session.result("failed", self.session.lead.last_end.text, error=problem))
            return False
        if end is None:
            return False
        if end.stop == "done":
            self.last_result = None
            if not members_at_work(self.session):
                self.notifier.team_done(self.session.team.name, end.text)
            return False
        self._note_result(await self.session.result_of_turn(end))
        return end.is_capped

    async def _run_until_done(self) -> bool:
        """Run until the team is done. Returns True when the person still wants to leave then."""
        self._note_result(await self.session.run(()))
        return self._leaving

    def _note_result(self, result: Result) -> None:
        self.last_result = result
        if result.error is not None:
            self._show_error(result.error)

    def _on_turn_cancelled(self) -> None:
        self.running_calls.clear_member(LEAD)
        waited, self._leaving = self._leaving, False
        self.next_session = None if waited else self.next_session
        if self._ended_by_user and not waited:
            record_interrupt(self.session)
        self._ended_by_user = False
        names = continuing_members(members_at_work(self.session))
        go_on = f"; {names} (/stop NAME ends one)" if names else ""
        head = "no longer waiting to leave" if waited else "the lead's turn was ended"
        self._show_folded([f"{head}{go_on}. Nothing is lost: your next line continues it."])

    async def _end_turn(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.cancel()
            await asyncio.wait({self._turn})

    # ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read_lines(self, command: str) -> LeaveChoice:
        """Execute the slash command of the command line, then each typed line, until the person leaves."""
        while True:
            try:
                line, command = command or await self.line_input.read_line(), ""
                if line is not None:
                    self.interrupts.reset()
                    self.suggestion.clear()
                    await self._handle_line(line)
            except EOFError:
                ending = await self._choose_how_to_leave()
                if ending not in {LeaveChoice.STAY, LeaveChoice.WAIT}:
                    return ending

    async def _handle_line(self, text: str) -> None:
        """Execute a typed line. Raises EOFError for /quit."""
        if text.startswith("!") and (command := text[1:].strip()):
            run_in_shell(self.session, command)
            return
        names = member_names(self.session)
        is_path = (self.session.agent_factory.work_directory / leading_word(text).rstrip(",:")).exists()
        written = self._custom_command_names()
        line = parse_line(text, names, is_path, written)
        try:
            match line:
                case TerminalCommand():
                    await self._command(line)
                case CustomCommand():
                    self.command_calls.start(line)
                case UnknownCommand():
                    self._show_folded(unknown_command_lines(line, written))
                case Note():
                    await self.commands.remember(line.text)
                case MemberMail():
                    await send_to_member(self.session, line.to, line.text)
                case LeadPrompt() if self.view.viewed_member and line.text.strip() and not line.mode:
                    await send_to_member(self.session, self.view.viewed_member, line.text)
                case LeadPrompt():
                    if line.mode:
                        await self.commands.run(TerminalCommand("/mode", line.mode))
                    self._send_prompt(line.text)
                    self._show_folded(await self.completion.missing_file_lines(line.text))
        except TeamwrightError as problem:
            self._show_error(problem)

    async def _run_at_request(self, text: str) -> bool:
        """Run a command that was typed at a request; the request waits. Raises EOFError for /quit."""
        if text.strip() in ANSWER_COMMANDS or parse_slash_command(text) is None:
            return False
        line = parse_line(text, (), custom_commands=self._custom_command_names())
        if isinstance(line, UnknownCommand) and not has_equivalent(line):
            return False  # it may be the answer to a question: a path such as /tmp
        await self._handle_line(text)
        return True

    async def _command(self, line: TerminalCommand) -> None:
        """Run a command of the terminal. Raises EOFError for /quit, and for /resume and /rewind after a choice."""
        if line.name == "/quit":
            raise EOFError
        if line.name == "/resume":
            width = window_size().columns
            self.next_session = await choose_next_session(self.session, line.rest, self.editor, self.show, width)
            if self.next_session is not None:
                raise EOFError
        elif line.name == "/rewind":
            self.next_session = await choose_rewind(self.session, line.rest, self.editor, self._show_folded)
            if self.next_session is not None:
                raise EOFError
        elif line.name == "/btw":
            self.command_calls.ask(line.rest)
        else:
            await self.commands.run(line)

    def _text_lines(self, text: str) -> list[str]:
        return rendered_lines(self._mask(text), self.texts.render, window_size().columns)

    def _custom_command_names(self) -> list[str]:
        return callable_names(self.session)

    def _send_prompt(self, text: str) -> None:
        if not text.strip():
            return
        if self.command_calls.start_prompt_with_resources(text):
            return
        try:
            prompt_lead(self.session, text)
        except TeamwrightError as problem:
            self._show_error(problem)
            return
        if self.is_lead_working:
            self.show(["  the lead reads it before its next step"])

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _choose_how_to_leave(self) -> LeaveChoice:
        """Ask how to leave. After WAIT the screen runs until the team is done."""
        agents = [f"sub-agent {one.agent}" for one in self.running_calls.background_agents()]
        working = [LEAD_ALIAS] if self.is_lead_working else []
        self.working_at_leave = [*working, *members_at_work(self.session), *agents]
        ending = await ask_how_to_leave(self.editor, self._show_folded, self.working_at_leave)
        if ending is LeaveChoice.STAY:
            self.next_session = None
        if ending is LeaveChoice.LEAVE:
            self.session.leave_requests_open()
        if ending is LeaveChoice.WAIT:
            self._leaving = True
            self.session.team.changed.set()
            self.show(["waiting; Ctrl-C stays"])
        return ending

    def _show_error(self, problem: TeamwrightError) -> None:
        self._show_folded([clean(line) for line in problem.render().split("\n")])
