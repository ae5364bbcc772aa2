"""A session on a terminal: trust first, then the session, then one line of what it cost and how to go on.

Everything heavy loads when a person is really there. Signals save, end the members and say how to resume. Knows
sessions through `app`; what happens in between is the host's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import replace

from teamwright.app.cost_line import cost_line
from teamwright.app.opening import open_session
from teamwright.app.options import Options
from teamwright.app.result import Result
from teamwright.app.session import Session
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.values import dataclass
from teamwright.ui.garbage import loaded
from teamwright.ui.terminal.editing.editor import Editor, Wiring
from teamwright.ui.terminal.editing.keyboard import editor_for
from teamwright.ui.terminal.host import Host
from teamwright.ui.terminal.leaving import Ending
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.paint import paint_for
from teamwright.ui.terminal.resuming.going_on import back_to, options_of
from teamwright.ui.terminal.text import clean, model_words
from teamwright.ui.terminal.trusting import settle_trust

TERMINATED = 143
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def interactive(options: Options, prompt: str | None) -> int:
    """Host a person until they leave; returns the exit code of docs/exit-codes.md.

    Raises TeamwrightError when it cannot start, KeyboardInterrupt for Ctrl-C at the question of trust.
    """
    left = asyncio.run(_interactive(settle_trust(replace(options, interactive=True)), prompt))
    while left.going is not None:
        left = _go_on(*left.going)
    return left.code


@dataclass(frozen=True, slots=True)
class Left:
    """A session that was left: its exit code; and how to open the next one, and this one should that fail."""

    code: int
    going: tuple[Options, Options] | None = None


def _go_on(to: Options, back: Options) -> Left:
    """Open the next session; one that cannot be opened after all brings the person back to where they were."""
    opened: list[Session] = []
    try:
        return asyncio.run(_interactive(settle_trust(to), None, opened))
    except TeamwrightError as problem:
        if opened:
            raise
        sys.stderr.write(f"{clean(problem.render())}\nback to the session that you were in\n")
    return asyncio.run(_interactive(settle_trust(back), None))


async def _interactive(options: Options, prompt: str | None, opened: list[Session] | None = None) -> Left:
    with _ended_by_signals() as (terminated, terminate):
        try:
            result, left = await _opened(options, prompt, opened, (terminated, terminate))
        except asyncio.CancelledError:  # before the person was hosted, or while all was ended
            if not terminated:
                raise
            return Left(TERMINATED)
    _farewell(result)
    return left


async def _opened(
    options: Options, prompt: str | None, opened: list[Session] | None, signals: tuple[list[int], Callable[[], None]]
) -> tuple[Result, Left]:
    terminated, terminate = signals
    async with open_session(options) as session:
        loaded()
        session.outside.end = terminate
        if opened is not None:
            opened.append(session)
        return await _hosted(session, prompt, terminated)


async def _hosted(session: Session, prompt: str | None, terminated: Collection[int]) -> tuple[Result, Left]:
    paint = paint_for(os.environ, is_tty=sys.stdout.isatty())
    host = Host(session, Narrator(paint, rest="/diff", usual=session.lead.agent.model.card.name))
    host.editor = editor = _editor(session, host)
    with _interrupted_by(editor.interrupt):
        host.show(_greeting(session))
        ending = await _host(host, prompt, terminated)
        result = await _finish(session, host, ending)
    if terminated:
        return result, Left(TERMINATED)
    going = None if result.stop == "limit" else host.going
    to = None if going is None else (options_of(session, going), back_to(session))
    return result, Left(result.exit_code, to)


async def _host(host: Host, prompt: str | None, terminated: Collection[int]) -> Ending:
    """Host until the end, and give the terminal back. After a signal the members keep their places."""
    try:
        return await host.run(prompt)
    except asyncio.CancelledError:
        if not terminated:
            raise
        return Ending.LEAVE
    finally:
        with contextlib.suppress(OSError):
            await host.editor.close()


def _editor(session: Session, host: Host) -> Editor:
    wiring = Wiring(
        interrupted=host.interrupted,
        offered=host.offered,
        history=session.maker.home.history,
        colors=host.narrator.paint.on,
        background=host.background,
        escaped=host.escaped,
        label=host.view.label,
        below=host.panel,
    )
    return editor_for(wiring)


def _greeting(session: Session) -> list[str]:
    model = session.lead.agent.model.card.name
    lines = [f"teamwright · {model_words(model)} · {clean(str(session.maker.cwd))} · /help"]
    lines += [f"  {clean(warning)}" for warning in session.warnings]
    conversation = session.lead.agent.conversation
    if conversation.items:
        lines.append(f"  session {session.id[:8]} continues; it has {len(conversation.items)} messages")
    if back := str(session.resumed):
        lines.append(f"  resumed: {clean(back)}")
    if conversation.owes_round or conversation.interrupted:
        lines.append("  its last turn was cut off: your next line continues it")
    return lines


async def _finish(session: Session, host: Host, ending: Ending) -> Result:
    """End what is to be ended, and make the result that the exit code comes from."""
    if ending is Ending.OVER and host.last is not None:
        return host.last
    await session.outside.goodbye()
    if ending is Ending.STOP:
        await session.wind_down("stopped by the user")
    elif ending is Ending.LEAVE:
        await session.wind_down("left to be resumed", keep=True)
    last = host.last
    if last is not None:
        result = await session.result(last.stop, last.text, error=last.error)
    else:
        # Leaving cut the lead's turn: that is no end of its own.
        stop = "cancelled" if host.cut and ending is not Ending.QUIT and not session.cut_off else "done"
        result = await session.result(stop, session.lead.last.text)
    return result


def _farewell(result: Result) -> None:
    with contextlib.suppress(OSError):
        if result.limit_detail:
            sys.stderr.write(f"teamwright: {clean(result.limit_detail)}\n")
        if result.cut_off:
            sys.stderr.write(f"teamwright: cut off at work: {clean(', '.join(result.cut_off))}\n")
        sys.stderr.write(f"{cost_line(result)}\ncontinue: {result.larger_command}\n")
        sys.stderr.flush()


@contextmanager
def _interrupted_by(on_interrupt: Callable[[], None]) -> Generator[None]:
    """SIGINT is a key while the block runs."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _ended_by_signals() -> Generator[tuple[list[int], Callable[[], None]]]:
    """SIGTERM and a terminal that closes cancel the block. Gives the signals that did, and how to end it in the same
    way without one."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    caught: list[int] = []

    def terminate(number: int) -> None:
        caught.append(number)
        if task is not None and len(caught) == 1:
            task.cancel()

    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, terminate, int(number))
    try:
        yield caught, lambda: terminate(signal.SIGTERM)
    finally:
        for number in _ENDING_SIGNALS:
            loop.remove_signal_handler(number)
