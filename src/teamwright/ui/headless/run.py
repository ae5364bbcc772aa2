"""Headless runs: the prompt from arguments or stdin, the answer on stdout, all else on stderr, and an exit code.

A signal saves the session, ends the members and prints the command to resume. Depends on the package `session`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.messages import Block, text_block
from teamwright.session.open import open_session
from teamwright.session.options import default_caps_line
from teamwright.session.report_file import require_writable, write_report
from teamwright.session.result import Result
from teamwright.session.session import Session
from teamwright.session.skills.run_command import offered_names, run_command
from teamwright.ui.garbage_collector import freeze_loaded
from teamwright.ui.headless.run_output import RunOutput, control_response, init_object
from teamwright.views.run_report import CallCollector, report

if TYPE_CHECKING:
    from teamwright.ui.invocation import Invocation

MAX_LINE = 64 * 1024 * 1024
"""The maximum size of a prompt on stdin in bytes, images included."""

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGPIPE: 130}
"""Exit codes by signal; a closed stdout counts as an interruption."""


def run_headless(invocation: Invocation) -> int:
    """Run the call and return the exit code of docs/exit-codes.md. Raises TeamwrightError when it cannot start."""
    return asyncio.run(_run_headless(invocation))


async def _run_headless(invocation: Invocation) -> int:
    if invocation.report is not None:
        require_writable(invocation.report)
    verbose = invocation.verbose and invocation.output_format != "stream-json"
    with _catch_end_signals() as ending:
        outlet = RunOutput(
            invocation.output_format,
            verbose or (sys.stderr.isatty() and invocation.output_format == "text"),
            calls=CallCollector(receipts=invocation.report is not None),
            on_write_error=partial(ending.end, signal.SIGPIPE),
        )
        try:
            result, code = await _open_and_run(invocation, outlet, ending)
        except asyncio.CancelledError:  # before the run started, or after it ended
            if not ending.caught:
                raise
            return EXIT_CODES[ending.caught[0]]
    if invocation.strict and result.stop == "cut_off" and result.all_failed:
        # a single error, which includes what the flag --strict asks for
        result = replace(result, error=_strictly(result))
    outlet.write_ending(result)
    if invocation.report is not None:
        write_report(invocation.report, report(result, outlet.calls))
    return code if code is not None else _exit_code(result, strict=invocation.strict, outlet=outlet)


async def _open_and_run(invocation: Invocation, outlet: RunOutput, ending: _SignalState) -> tuple[Result, int | None]:
    end = partial(ending.end, signal.SIGTERM)
    async with open_session(replace(invocation.options, headless=True), end) as session:
        freeze_loaded()
        streams = outlet.format == "stream-json"
        unsubscribe = session.log.subscribe(lambda _n, event: outlet.show_event(event, session.id), live=streams)
        try:
            return await _run(invocation, session, outlet, ending)
        finally:
            unsubscribe()


class _SignalState(Struct):
    """The signals received, and the task that the first signal cancels: the opening of the session, then the run."""

    task: asyncio.Future[Any]
    session: Session | None = None
    caught: list[signal.Signals] = field(default_factory=list[signal.Signals])

    def end(self, number: signal.Signals) -> None:
        """Cancel the task after a signal; a second signal shortens the shutdown of members."""
        if self.caught and self.session is not None:
            self.session.outside.hurry()
        self.caught.append(number)
        self.task.cancel()


async def _run(
    invocation: Invocation, session: Session, outlet: RunOutput, ending: _SignalState
) -> tuple[Result, int | None]:
    """Run the prompts and end the members; a signal or a closed stdout cancels the run and saves it."""
    task = ending.task = asyncio.ensure_future(_run_until_done(invocation, session, outlet))
    ending.session = session
    _write_opening(invocation, session, outlet)  # a reader that closes stdout ends the run here
    try:
        return await task, None
    except asyncio.CancelledError:
        if not ending.caught:
            raise
        await session.outside.wait_until_idle()
        await session.stop_members("interrupted", keep=True)
        return await session.result("cancelled", session.lead.last_end.text), EXIT_CODES[ending.caught[0]]


async def _run_until_done(invocation: Invocation, session: Session, outlet: RunOutput) -> Result:
    return await session.end_members(await _run_prompts(invocation, session, outlet))


async def _run_prompts(invocation: Invocation, session: Session, outlet: RunOutput) -> Result:
    if (called := invocation.named_command) is not None:
        return await run_command(session, *called, before=invocation.stdin)
    if invocation.input_format != "stream-json":
        prompt = await invocation.read_prompt()
        if not prompt and not await session.has_work():
            raise _nothing_to_do_error(session)
        return await session.run(prompt)
    result: Result | None = None
    async for content in _stream_prompts(session, outlet):
        outlet.is_answered = False
        result = await session.run(content)
        if not result.ok:
            break
        if outlet.format != "json":
            outlet.write_answer(result)
    if result is None:
        raise UsageError("usage", "no prompt came in", looked_at=[("stdin", "one JSON object a line was expected")])
    return result


def _nothing_to_do_error(session: Session) -> UsageError:
    return UsageError(
        "usage",
        f"session {session.id[:8]} has answered every prompt, and no member has open work",
        do=[f'{session.resume_command} -p "…"'],
        note="nothing was sent",
    )


async def _stream_prompts(session: Session, outlet: RunOutput) -> AsyncIterator[list[Block]]:
    """Yield prompts of stdin, one `{"type":"user","message":{"content":…}}` a line. Raises UsageError for another.

    A `control_request` line is answered on stdout.
    """
    async for line in _stdin_lines():
        if not line.strip():
            continue
        body = _parse_line(line)
        if body.get("type") == "control_request":
            outlet.json_line(control_response(body, offered_names(session)["slash_commands"]))
        else:
            yield _parse_message(body, line)


async def _stdin_lines() -> AsyncIterator[bytes]:
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        for line in sys.stdin.buffer:  # a file is always readable and cannot be waited for
            yield line
        return
    reader = asyncio.StreamReader(limit=MAX_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise _no_message_error(line) from problem
    if not isinstance(body, dict):
        raise _no_message_error(line)
    return cast("dict[str, Any]", body)


def _no_message_error(line: bytes) -> UsageError:
    shown = line[:80].decode(errors="replace").strip()
    return UsageError(
        "usage",
        f"a line of stdin is not a user message: {shown}",
        do=['send {"type":"user","message":{"role":"user","content":"…"}} on one line'],
    )


def _parse_message(body: dict[str, Any], line: bytes) -> list[Block]:
    try:
        content = body["message"]["content"]
        if body["type"] != "user" or not content:
            raise KeyError("type")
    except (KeyError, TypeError) as problem:
        raise _no_message_error(line) from problem
    return [text_block(content)] if isinstance(content, str) else list(content)


def _write_opening(invocation: Invocation, session: Session, outlet: RunOutput) -> None:
    purse = session.maker.purse
    if caps := default_caps_line(purse.budget, purse.assumed, session.lead.agent.model.card):
        outlet.note(f"teamwright: {caps}")
    for warning in session.warnings:
        outlet.note(f"teamwright: {warning}")
    if back := str(session.resumed):
        outlet.note(f"teamwright: resumed: {back}")
    if outlet.format == "stream-json":
        agent = session.lead.agent
        names = {"tools": [tool.name for tool in agent.toolbox.offered_tools], **offered_names(session)}
        mode = session.permission_mode
        served = session.maker.kit.serving
        about = (agent.model.card.name, mode, names, served.views() if served is not None else ())
        outlet.json_line(init_object(session.id, str(invocation.options.cwd), *about))


def _exit_code(result: Result, *, strict: bool, outlet: RunOutput) -> int:
    if not strict or result.exit_code != 0 or (strictly := _strictly(result)) is None:
        return result.exit_code
    outlet.note(strictly.render())
    return strictly.exit_code


def _strictly(result: Result) -> TeamwrightError | None:
    """Return the error that --strict makes of denied requests, failed members and open tasks; None without any."""
    failed = [one.name for one in result.failed_members]
    reasons = [
        *([f"denied requests: {len(result.denials)}"] if result.denials else []),
        *([f"failed members: {', '.join(failed)}"] if failed else []),
        *([f"open tasks: {', '.join('#' + t.id for t in result.open_tasks)}"] if result.open_tasks else []),
    ]
    if not reasons:
        return None
    return TeamwrightError("strict", "--strict: " + "; ".join(reasons), do=[result.resume_command])


@contextmanager
def _catch_end_signals() -> Generator[_SignalState]:
    """Catch the signals that end a run while the block runs; signals that were ignored before stay ignored."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    ending = _SignalState(task)
    heeded = [number for number in END_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, ending.end, number)
    try:
        yield ending
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
