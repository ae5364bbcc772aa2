"""An interactive session: the question of trust, the session on the screen, then its cost and how to resume it.

A signal saves the session, ends the members and prints the command to resume. Large modules load only on a terminal.
Depends on the package `session` and on `session_screen`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.config.trust import agent_command
from teamwright.edit_history.undo import UndoPlan
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.result import Result
from teamwright.session.session import Session
from teamwright.session.trust_question import TrustState, give_trust, trust_survey
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.display_text import clean, fold_lines, model_name, one_line, window_size
from teamwright.ui.python_gc import freeze_loaded
from teamwright.ui.terminal.conversation_view import MAX_HISTORY_LINES, last_exchange
from teamwright.ui.terminal.editor_choice import make_editor
from teamwright.ui.terminal.editor_protocol import Editor, EditorCallbacks
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.session_screen import SessionScreen
from teamwright.ui.terminal.session_switch import LeaveChoice, options_for, options_to_return, rewind_left_session
from teamwright.ui.terminal.styles import make_paint, terminal_environment
from teamwright.views.log import ConversationReader
from teamwright.views.run_summary import cost_line

TERMINATED = 143
MAX_PROMPT_LINES = 6
"""The number of lines of the last prompt that a session shows when it continues."""

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def run_interactive(options: Options, prompt: str | None) -> int:
    """Run sessions until the person leaves; return the exit code of docs/reference/exit-codes.md.

    Raises TeamwrightError when a session cannot start, and KeyboardInterrupt for Ctrl-C at the question of trust.
    """
    left = asyncio.run(_interactive(ask_for_trust(replace(options, interactive=True)), prompt))
    while left.next_options is not None:
        left = _switch_session(*left.next_options, left.rewind)
    return left.code


class LeftSession(Struct, frozen=True):
    """A session that was left: its exit code, and the options of the next session and of a return to this one.

    `rewind` is the confirmed plan that takes the next session back before it is opened.
    """

    code: int
    next_options: tuple[Options, Options] | None = None
    rewind: UndoPlan | None = None


def _switch_session(to: Options, previous: Options, rewind: UndoPlan | None) -> LeftSession:
    """Open the next session; when it cannot be taken back or opened, return to the previous one."""
    opened: list[Session] = []
    try:
        if rewind is not None:
            lines = asyncio.run(rewind_left_session(to, rewind))
            sys.stdout.write("".join(f"{clean(line)}\n" for line in lines))
        return asyncio.run(_interactive(ask_for_trust(to), None, opened))
    except TeamwrightError as problem:
        if opened:
            raise
        sys.stderr.write(f"{clean(problem.render())}\nback to the session that you were in\n")
    return asyncio.run(_interactive(ask_for_trust(previous), None))


async def _interactive(
    options: Options, prompt: str | None, opened_sessions: list[Session] | None = None
) -> LeftSession:
    with _catch_end_signals() as ending:
        try:
            result, left = await _open_session(options, prompt, opened_sessions, ending)
        except asyncio.CancelledError:  # before the screen started, or during the shutdown
            if not ending.caught:
                raise
            return LeftSession(TERMINATED)
    _print_summary(result)
    return left


async def _open_session(
    options: Options,
    prompt: str | None,
    opened_sessions: list[Session] | None,
    ending: _EndSignals,
) -> tuple[Result, LeftSession]:
    if options.resume is not None:
        from teamwright.edit_history.rewind import prepare_resume

        options = await prepare_resume(options)
    session = None
    try:
        async with open_session(options, partial(ending.end, signal.SIGTERM)) as session:
            ending.session = session
            freeze_loaded()
            if opened_sessions is not None:
                opened_sessions.append(session)
            return await _run_session(session, prompt, ending.caught)
    finally:
        for line in session.agent_factory.kept_worktrees if session is not None else ():
            sys.stdout.write(f"{clean(line)}\n")


async def _run_session(
    session: Session, prompt: str | None, end_signals: Collection[int]
) -> tuple[Result, LeftSession]:
    env = terminal_environment(os.environ, plain=session.settings.plain_terminal)
    paint = make_paint(env, is_tty=sys.stdout.isatty())
    formatter = EventFormatter(paint, rest_command="/diff", usual_model=session.lead.agent.model.card.name)
    host = SessionScreen(session, formatter, env)
    host.editor = editor = _make_editor(session, host, env)
    with _handle_interrupt(editor.interrupt):
        host.show(fold_lines(_greeting(session), window_size().columns))
        _show_last_exchange(session, host)
        ending = await _run_screen(host, prompt, end_signals)
        result = await _end_session(session, host, ending)
    if end_signals:
        return result, LeftSession(TERMINATED)
    going = None if result.stop == "limit" else host.next_session
    to = None if going is None else (options_for(session, going), options_to_return(session))
    return result, LeftSession(result.exit_code, to, going.rewind if going is not None else None)


async def _run_screen(screen: SessionScreen, prompt: str | None, end_signals: Collection[int]) -> LeaveChoice:
    """Run the screen to its end, and restore the terminal. After a signal the members can be resumed."""
    try:
        return await screen.run(prompt)
    except asyncio.CancelledError:
        if not end_signals:
            raise
        return LeaveChoice.LEAVE
    finally:
        with contextlib.suppress(OSError):
            await screen.editor.close()


def _make_editor(session: Session, screen: SessionScreen, env: Mapping[str, str]) -> Editor:
    wiring = EditorCallbacks(
        on_interrupt=screen.on_interrupt,
        complete=screen.completion.complete,
        cwd=session.agent_factory.work_directory,
        history=session.agent_factory.home.prompt_history,
        colors=screen.formatter.paint.on,
        on_background=screen.shortcuts.move_to_background,
        on_mode=screen.shortcuts.next_mode,
        on_output=screen.shortcuts.show_output,
        on_keys=screen.shortcuts.show_keys,
        on_escape=screen.on_escape,
        focus=screen.notifier.focus,
        label=screen.view.label,
        status_area=screen.panel,
        text_rows=screen.text_rows,
        suggestion=lambda: "" if screen.view.viewed_member else screen.suggestion.text,
    )
    return make_editor(wiring, env)


def _show_last_exchange(session: Session, screen: SessionScreen) -> None:
    """Show the last prompt and answer of a session that continues."""
    conversation = session.lead.agent.conversation
    if not conversation.items:
        return
    prompt, answer = last_exchange(ConversationReader(conversation.path, live=True).recent(MAX_HISTORY_LINES))
    if prompt:
        screen.show([f"> {clean(line)}" for line in prompt.split("\n")[:MAX_PROMPT_LINES]])
    screen.texts.add(LEAD, answer)
    screen.texts.end(LEAD)


def _greeting(session: Session) -> list[str]:
    model = session.lead.agent.model.card.name
    # The path comes last: it is the longest part, and the only word that may be wider than a window.
    lines = [f"teamwright · /help · {model_name(model)} · {clean(str(session.agent_factory.work_directory))}"]
    lines += [f"  {clean(warning)}" for warning in session.warnings]
    conversation = session.lead.agent.conversation
    if conversation.items:
        count = len(conversation.items)
        lines.append(f"  session {session.id[:8]} continues; it has {count} message{'s' if count > 1 else ''}")
    if back := str(session.resumed):
        lines.append(f"  resumed: {clean(back)}")
    if conversation.owes_answer or conversation.interrupted:
        lines.append("  its last turn was cut off: your next line continues it")
    return lines


async def _end_session(session: Session, screen: SessionScreen, ending: LeaveChoice) -> Result:
    """End the members that the choice ends, and return the result for the exit code."""
    if ending is LeaveChoice.ENDED and screen.last_result is not None:
        return screen.last_result
    await session.outside.wait_until_idle()
    if ending is LeaveChoice.STOP:
        await session.stop_members("stopped by the user")
    elif ending is LeaveChoice.LEAVE:
        await session.stop_members("left to be resumed", keep=True)
    last = screen.last_result
    if last is not None:
        result = await session.result(last.stop, last.text, error=last.error)
    else:
        # Leaving interrupted the lead's turn, which is not a reason of its end.
        stop = (
            "cancelled"
            if screen.working_at_leave and ending is not LeaveChoice.QUIT and not session.cut_off
            else "done"
        )
        result = await session.result(stop, session.lead.last_end.text)
    return session.judged_run(result)


def _print_summary(result: Result) -> None:
    with contextlib.suppress(OSError):
        if result.limit_detail:
            sys.stderr.write(f"teamwright: {clean(result.limit_detail)}\n")
        if result.cut_off:
            sys.stderr.write(f"teamwright: cut off at work: {clean(', '.join(result.cut_off))}\n")
        sys.stderr.write(f"{cost_line(result)}\ncontinue: {result.larger_command}\n")
        sys.stderr.flush()


@contextmanager
def _handle_interrupt(on_interrupt: Callable[[], None]) -> Generator[None]:
    """Handle SIGINT as a key while the block runs."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


class _EndSignals(Struct):
    """The signals received, and the task that the first one cancels."""

    task: asyncio.Task[Any] | None
    session: Session | None = None
    caught: list[int] = field(default_factory=list[int])

    def end(self, number: int) -> None:
        """Cancel the task after the first signal. What waits for an answer is left open for the resume."""
        self.caught.append(number)
        if self.task is None or len(self.caught) > 1:
            return
        if self.session is not None:
            self.session.leave_requests_open()
        self.task.cancel()


@contextmanager
def _catch_end_signals() -> Generator[_EndSignals]:
    """Cancel the block for SIGTERM and a closed terminal, and yield what was received."""
    loop = asyncio.get_running_loop()
    ending = _EndSignals(asyncio.current_task())
    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, ending.end, int(number))
    try:
        yield ending
    finally:
        for number in _ENDING_SIGNALS:
            loop.remove_signal_handler(number)


MAX_LISTED = 20
"""The number of listed entries; the rest is counted. Entries that allow calls or run automatically are always listed.
"""


def ask_for_trust(options: Options) -> Options:
    """Return the options with `trust` set when the person trusts the entries for this run.

    No question is asked without waiting entries. No answer, or an unknown one, means no: the entries are left out.
    Raises KeyboardInterrupt for Ctrl-C.
    """
    state = trust_survey(options)
    if options.trust or not state.needs_asking:
        return options
    if agent_command(resolve_home(options.home)) is not None:
        sys.stdout.write("Entries of this repository are left out: a command of an agent has opened this terminal.\n")
        return options
    sys.stdout.write("\n".join(_entry_lines(state)) + "\n")
    sys.stdout.flush()
    match _read_answer():
        case "y":
            give_trust(options, state)
            return options
        case "o":
            return replace(options, trust=True)
        case _:
            sys.stdout.write("Left out. `teamwright trust` gives trust later.\n")
            return options


def _entry_lines(state: TrustState) -> list[str]:
    """Return all entries that need trust, since a yes covers all of them."""
    waiting = sorted(state.pending, key=lambda entry: entry.effect != "used")
    lines = [clean(str(state.root)), "has entries that can run or widen something:", ""]
    listed = [entry for at, entry in enumerate(waiting) if at < MAX_LISTED or entry.allows or entry.kind == "hook"]
    for entry in listed:
        later = "" if entry.effect == "used" else f" [{entry.effect}]"
        lines += [f"  {one_line(entry.summary)}", f"    in {one_line(entry.file)}{later}"]
    if left := len(waiting) - len(listed):
        lines.append(f"  … and {left} more: `teamwright trust` shows them")
    return [*lines, "", "Without trust only its instructions and its own prohibitions apply."]


def _read_answer() -> str:
    """Return y, o or n; ask again after any other line."""
    while True:
        try:
            reply = input("trust them?  y for good · o only this run · n leave them out: ").strip().lower()
        except EOFError:
            sys.stdout.write("\n")
            return "n"
        if reply in {"y", "yes"}:
            return "y"
        if reply in {"o", "once"}:
            return "o"
        if reply in {"n", "no"}:
            return "n"
