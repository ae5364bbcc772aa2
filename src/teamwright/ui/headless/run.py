"""A run without a person: the prompt in, the answer alone on stdout, everything else on stderr, an exit code.

Signals save, end the members and print how to go on. Knows sessions through `app`; decides nothing about agents.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO, cast

from teamwright.app.cost_line import cost_line
from teamwright.app.opening import open_session
from teamwright.app.report import Calls, report
from teamwright.app.result import Result
from teamwright.app.session import Session
from teamwright.app.writing import write_report
from teamwright.protocol.blocks import Block, text_block
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.ui.headless.progress import line_of
from teamwright.ui.headless.wire import event_object, init_object, result_object

if TYPE_CHECKING:
    from teamwright.ui.cli.invocation import Invocation

SIGNAL_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def headless(invocation: Invocation) -> int:
    """Run it and return the exit code of docs/exit-codes.md. Raises TeamwrightError when it cannot start."""
    return asyncio.run(_headless(invocation))


@dataclass(slots=True)
class Outlet:
    """Where words go: stdout for the answer or the JSON alone, stderr for all else."""

    format: str
    progress: bool
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    calls: Calls = field(default_factory=Calls)

    def json_line(self, body: dict[str, Any]) -> None:
        """One JSON object on a line of stdout."""
        self.out.write(json.dumps(body, ensure_ascii=False) + "\n")
        self.out.flush()

    def note(self, line: str) -> None:
        """One line on stderr."""
        self.err.write(line + "\n")
        self.err.flush()

    def event(self, event: TeamEvent, session_id: str) -> None:
        """Show an event in the way that was asked for."""
        self.calls.note(event)
        if self.format == "stream-json":
            body = event_object(event, session_id)
            if body is not None:
                self.json_line(body)
        if self.progress and (line := line_of(event)) is not None:
            self.note(line)

    def ending(self, result: Result) -> None:
        """The answer, what went wrong, what it cost, how to go on."""
        if self.format == "text":
            if result.text:
                self.out.write(result.text.rstrip("\n") + "\n")
                self.out.flush()
        else:
            self.json_line(result_object(result))
        if result.error is not None:
            self.note(result.error.render())
        elif result.stop == "limit":
            self.note(
                f"teamwright: the cap on {result.limit} is spent; the rest is where it was: {result.resume_command}"
            )
        elif result.stop == "cancelled":
            self.note(f"teamwright: interrupted, everything is saved: {result.resume_command}")
        if result.cut_off:
            self.note(f"teamwright: cut off at work: {', '.join(result.cut_off)}")
        for denial in result.denials:
            self.note(f"teamwright: refused {denial['tool_name']} of {denial['member']} ({denial['rule']})")
        self.note(cost_line(result))


async def _headless(invocation: Invocation) -> int:
    verbose = invocation.verbose and invocation.output_format != "stream-json"
    outlet = Outlet(invocation.output_format, verbose or (sys.stderr.isatty() and invocation.output_format == "text"))
    async with open_session(invocation.options) as session:
        _opening_lines(invocation, session, outlet)
        streams = outlet.format == "stream-json"
        unsubscribe = session.log.subscribe(lambda _n, event: outlet.event(event, session.id), live=streams)
        try:
            result, code = await _run(invocation, session, outlet)
        finally:
            unsubscribe()
    outlet.ending(result)
    if invocation.report is not None:
        write_report(invocation.report, report(result, outlet.calls))
    return code if code is not None else _exit_code(result, strict=invocation.strict, outlet=outlet)


async def _run(invocation: Invocation, session: Session, outlet: Outlet) -> tuple[Result, int | None]:
    """See the prompts through; a signal cancels, saves and ends the members."""
    task = asyncio.ensure_future(_prompts(invocation, session, outlet))
    caught: list[int] = []
    with _signals(lambda number: (caught.append(number), task.cancel())):
        try:
            result = await task
        except asyncio.CancelledError:
            if not caught:
                raise
            await session.wind_down("interrupted")
            result = await session.result("cancelled", session.lead.last.text)
            return result, SIGNAL_CODES[signal.Signals(caught[0])]
        await session.goodbye()
    return result, None


async def _prompts(invocation: Invocation, session: Session, outlet: Outlet) -> Result:
    if invocation.input_format != "stream-json":
        prompt = await invocation.read_prompt()
        if not prompt and not session.lead.owing:
            raise _nothing_owed(session)
        return await session.run(prompt)
    result: Result | None = None
    async for content in _stream_prompts():
        if result is not None and outlet.format == "stream-json":
            outlet.json_line(result_object(result))
        result = await session.run(content)
        if not result.ok:
            break
    if result is None:
        raise UsageError("usage", "no prompt came in", looked_at=[("stdin", "one JSON object a line was expected")])
    return result


def _nothing_owed(session: Session) -> UsageError:
    return UsageError(
        "usage",
        f"session {session.id[:8]} has answered everything that it was asked",
        do=[f'{session.resume_command} -p "…"'],
        note="nothing was sent",
    )


async def _stream_prompts() -> AsyncIterator[list[Block]]:
    """Prompts of stdin: `{"type":"user","message":{"content":…}}` a line. Raises UsageError for another line."""
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line.strip():
            yield _content_of(line)


def _content_of(line: bytes) -> list[Block]:
    try:
        body = cast("dict[str, Any]", json.loads(line))
        content = body["message"]["content"]
        if body["type"] != "user" or not content:
            raise KeyError("type")
    except (ValueError, KeyError, TypeError) as problem:
        shown = line[:80].decode(errors="replace").strip()
        raise UsageError(
            "usage",
            f"a line of stdin is not a user message: {shown}",
            do=['send {"type":"user","message":{"role":"user","content":"…"}} on one line'],
        ) from problem
    return [text_block(content)] if isinstance(content, str) else list(content)


def _opening_lines(invocation: Invocation, session: Session, outlet: Outlet) -> None:
    for warning in session.warnings:
        outlet.note(f"teamwright: {warning}")
    budget = invocation.options.budget
    if os.environ.get("CI") and budget.usd is None and budget.tokens is None and budget.minutes is None:
        outlet.note("teamwright: no cap is set; --max-budget-usd, --max-tokens or --timeout would set one")
    if outlet.format == "stream-json":
        agent = session.lead.agent
        tools = [tool.name for tool in agent.toolbox.tools]
        mode = session.permission_mode
        outlet.json_line(init_object(session.id, str(invocation.options.cwd), agent.model.card.name, mode, tools))


def _exit_code(result: Result, *, strict: bool, outlet: Outlet) -> int:
    if not strict or result.exit_code != 0:
        return result.exit_code
    failed = [m.name for m in result.members if m.name != LEAD and m.state in {"failed", "killed"}]
    reasons = [
        *([f"{len(result.denials)} denied requests"] if result.denials else []),
        *([f"failed members: {', '.join(failed)}"] if failed else []),
        *([f"open tasks: {', '.join('#' + t.id for t in result.open_tasks)}"] if result.open_tasks else []),
    ]
    if not reasons:
        return 0
    strictly = TeamwrightError("strict", "--strict: " + "; ".join(reasons), do=[result.resume_command])
    outlet.note(strictly.render())
    return strictly.exit_code


@contextmanager
def _signals(on_signal: Callable[[int], object]) -> Generator[None]:
    """SIGINT and SIGTERM go to this function while the block runs."""
    loop = asyncio.get_running_loop()
    for number in SIGNAL_CODES:
        loop.add_signal_handler(number, on_signal, int(number))
    try:
        yield
    finally:
        for number in SIGNAL_CODES:
            loop.remove_signal_handler(number)
