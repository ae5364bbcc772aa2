"""Headless runs: the prompt from arguments or stdin, the answer on stdout, all else on stderr, and an exit code.

A signal saves the session, ends the members and prints the command to resume. Depends on the package `session`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.errors import StorageError, TeamwrightError, UsageError
from teamwright.session.open_session import open_session
from teamwright.session.options import Options, default_caps_line
from teamwright.session.result import Result
from teamwright.session.server_resources import read_mentions
from teamwright.session.session import Session
from teamwright.ui.headless.run_output import RunOutput, init_object, refused_start
from teamwright.ui.python_gc import freeze_loaded
from teamwright.views.run_report import CallCollector, report

if TYPE_CHECKING:
    from teamwright.ui.headless.approving_program import McpApprover
    from teamwright.ui.headless.client_connection import ClientConnection
    from teamwright.ui.headless.partial_messages import PartialMessages
    from teamwright.ui.headless.transcript_mirror import KnownLines
    from teamwright.ui.invocation import Invocation

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGPIPE: 130}
"""Exit codes by signal; a closed stdout counts as an interruption."""


def run_headless(invocation: Invocation) -> int:
    """Run the call and return its exit code (docs/reference/exit-codes.md). Raises TeamwrightError before the start."""
    return asyncio.run(_run_headless(invocation))


async def _run_headless(invocation: Invocation) -> int:
    if invocation.report is not None:
        from teamwright.session.report_file import require_writable

        require_writable(invocation.report)
    verbose = invocation.verbose and invocation.output_format != "stream-json"
    with _catch_end_signals() as ending:
        outlet = RunOutput(
            invocation.output_format,
            verbose or (sys.stderr.isatty() and invocation.output_format == "text"),
            calls=CallCollector(receipts=invocation.report is not None),
            on_write_error=partial(ending.end, signal.SIGPIPE),
            replays_prompts=invocation.replay_user_messages,
            partials=_partial_messages() if invocation.include_partial_messages else None,
            root=invocation.options.home,
            is_for_client=invocation.input_format == "stream-json",
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
        from teamwright.session.report_file import write_report

        write_report(invocation.report, report(result, outlet.calls))
    return code if code is not None else _exit_code(result, strict=invocation.strict, outlet=outlet)


def _partial_messages() -> PartialMessages:
    from teamwright.ui.headless.partial_messages import PartialMessages  # loaded only for its flag

    return PartialMessages()


async def _open_and_run(invocation: Invocation, outlet: RunOutput, ending: _SignalState) -> tuple[Result, int | None]:
    options = replace(invocation.options, headless=True)
    if invocation.input_format != "stream-json":
        return await _open_and_run_session(invocation, options, outlet, ending, None)
    from teamwright.ui.headless.client_connection import ClientConnection  # loaded only for a client

    client = ClientConnection(outlet.json_line)
    try:
        options = await client.prepare(options, asks=invocation.permission_prompt_tool == "stdio")
        outlet.shows_subagent_text = client.reads_subagent_text
        ended = await _open_and_run_session(invocation, options, outlet, ending, client)
        outlet.not_run = [(prompt.uuid, prompt.origin) for prompt in client.waiting_prompts()]
        return ended
    except TeamwrightError as problem:
        if not outlet.is_opened and outlet.format == "stream-json":
            outlet.json_line(refused_start(problem, options.resume or options.session_id or ""))
        raise
    finally:
        await client.close()


async def _open_and_run_session(
    invocation: Invocation, options: Options, outlet: RunOutput, ending: _SignalState, client: ClientConnection | None
) -> tuple[Result, int | None]:
    approver = None
    if invocation.permission_prompt_tool.startswith("mcp__"):
        from teamwright.ui.headless.approving_program import McpApprover  # loaded only for this flag

        approver = McpApprover(invocation.permission_prompt_tool)
        options = replace(options, on_request=approver.ask)
    known = _start_mirror(options, outlet) if invocation.session_mirror else {}
    if options.resume is not None:
        from teamwright.edit_history.rewind import prepare_resume

        options = await prepare_resume(options)
    while True:
        try:
            async with _open(options, partial(ending.end, signal.SIGTERM), outlet) as session:
                if outlet.mirror is not None:
                    outlet.mirror.follow(session.lead.agent.conversation.path, known)
                return await _run_in_session(invocation, session, outlet, ending, client, approver)
        except ConversationCleared as cleared:  # raised only for a client
            assert client is not None
            ending.begin_again()
            options = await cleared.next_options()
            outlet.begin_conversation(cleared.session.id)
            known = {}


async def _run_in_session(
    invocation: Invocation,
    session: Session,
    outlet: RunOutput,
    ending: _SignalState,
    client: ClientConnection | None,
    approver: McpApprover | None,
) -> tuple[Result, int | None]:
    """Carry out the prompts of an open session. Raises ConversationCleared when the next session begins."""
    freeze_loaded()
    outlet.is_opened = True
    streams = outlet.format == "stream-json"
    unsubscribe = session.log.subscribe(lambda _n, event: outlet.show_event(event, session.id), live=streams)
    try:
        if approver is not None:
            await approver.set_session(session)
        return await _run(invocation, session, outlet, ending, client)
    finally:
        unsubscribe()
        outlet.open_plan = _open_plan(session)
        if outlet.mirror is not None:
            outlet.mirror.send_rest()


def _start_mirror(options: Options, outlet: RunOutput) -> dict[Path, KnownLines]:
    """Mirror the session for its client, and return what the client has of it before it is opened."""
    from teamwright.ui.headless.transcript_mirror import TranscriptMirror, known_lines  # only for a client with a store

    outlet.mirror = TranscriptMirror(outlet.json_line)
    return known_lines(options)


@asynccontextmanager
async def _open(options: Options, end: Callable[[], None], outlet: RunOutput) -> AsyncGenerator[Session]:
    """Open the session for the block, and name the worktrees that stay after it."""
    session = None
    try:
        async with open_session(options, end) as session:
            yield session
    finally:
        for line in session.agent_factory.kept_worktrees if session is not None else ():
            outlet.note(f"teamwright: {line}")


def _open_plan(session: Session) -> str:
    """Return the path of the plan that the lead has written and that is not approved; empty without one."""
    plan = session.lead.agent.plan
    if plan is None or not plan.is_on:
        return ""
    try:
        return str(plan.file) if plan.read().strip() else ""
    except StorageError:
        return ""


class ConversationCleared(Exception):
    """A client cleared the conversation: this session ends, and the next one begins with its team."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.id)
        self.session = session
        self._team = session.team.name if session.team.exists else ""

    async def next_options(self) -> Options:
        """Return the options of the next session, once this one is closed: its team, and what its caps leave."""
        from teamwright.saved.teams import find_team_to_adopt

        session = self.session
        adopt = None
        if self._team:
            with contextlib.suppress(TeamwrightError):  # it was removed with its session
                await find_team_to_adopt(session.agent_factory.home, session.options.stores, self._team)
                adopt = self._team
        return replace(
            session.options,
            session_id=None,
            resume=None,
            fork=False,
            title="",
            setup="",
            adopt=adopt,
            start_source="clear",
            spent=session.agent_factory.budget_tracker.spent,
        )


class _SignalState(Struct):
    """The signals received, and the task that the first signal cancels: the opening of the session, then the run."""

    task: asyncio.Future[Any]
    session: Session | None = None
    caught: list[signal.Signals] = field(default_factory=list[signal.Signals])

    def begin_again(self) -> None:
        """Cancel this task after a signal, until the next session runs."""
        task = asyncio.current_task()
        assert task is not None
        self.task, self.session = task, None

    def end(self, number: signal.Signals) -> None:
        """Cancel the task after a signal; a second signal shortens the shutdown of members.

        What waits for an answer is left open for the resume.
        """
        if self.session is not None:
            if self.caught:
                self.session.outside.hurry()
            self.session.leave_requests_open()
        self.caught.append(number)
        self.task.cancel()


async def _run(
    invocation: Invocation, session: Session, outlet: RunOutput, ending: _SignalState, client: ClientConnection | None
) -> tuple[Result, int | None]:
    """Run the prompts and end the members; a signal or a closed stdout cancels the run and saves it."""
    task = ending.task = asyncio.ensure_future(_run_until_done(invocation, session, outlet, client))
    ending.session = session
    _write_opening(invocation, session, outlet)  # a reader that closes stdout ends the run here
    if client is not None:
        client.attach(session)
    try:
        return await task, None
    except asyncio.CancelledError:
        if not ending.caught:
            raise
        await session.outside.wait_until_idle()
        session.note_cut_off_commands()
        await session.stop_members("interrupted", keep=True)
        return await session.result("cancelled", session.lead.last_end.text), EXIT_CODES[ending.caught[0]]


async def _run_until_done(
    invocation: Invocation, session: Session, outlet: RunOutput, client: ClientConnection | None
) -> Result:
    if client is not None:
        if outlet.cleared:
            outlet.write_answer(await session.result("done", outlet.cleared))
        return await session.end_members(await _run_client_prompts(session, outlet, client))
    return await session.end_members(await _run_prompt(invocation, session))


async def _run_prompt(invocation: Invocation, session: Session) -> Result:
    if (called := invocation.slash_command) is not None:
        from teamwright.ui.headless.slash_command import run_slash_command  # loaded only for a command

        return await run_slash_command(session, *called, invocation.stdin)
    prompt = await invocation.read_prompt()
    if not prompt and not await session.has_work():
        raise _nothing_to_do_error(session)
    if invocation.prompt:
        prompt += await read_mentions(session, invocation.prompt)
    return await session.run(prompt)


async def _run_client_prompts(session: Session, outlet: RunOutput, client: ClientConnection) -> Result:
    """Carry out the client's prompts, each with its result. A cap or a failure ends the run, an interrupt does not."""
    from teamwright.ui.headless.client_commands import is_clear  # only for a client

    result: Result | None = None
    async for prompt in client.prompts():
        outlet.begin_prompt(prompt.uuid, prompt.origin)
        if is_clear(prompt.content):
            client.detach()
            raise ConversationCleared(session)
        result = await client.run(session, prompt)
        if result.stop not in ("done", "cancelled") and result.limit != "turns":  # the next prompt has as many again
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


def _write_opening(invocation: Invocation, session: Session, outlet: RunOutput) -> None:
    budget_tracker = session.agent_factory.budget_tracker
    caps = default_caps_line(budget_tracker.budget, budget_tracker.assumed, session.lead.agent.model.card)
    if caps and not outlet.is_for_client:
        outlet.note(f"teamwright: {caps}")
    for warning in session.warnings:
        outlet.note(f"teamwright: {warning}")
    if back := str(session.resumed):
        outlet.note(f"teamwright: resumed: {back}")
    if outlet.format == "stream-json":
        from teamwright.session.slash_command_call import offered_names

        agent = session.lead.agent
        names = {"tools": [tool.name for tool in agent.toolbox.offered_tools], **offered_names(session)}
        if invocation.input_format == "stream-json":
            from teamwright.ui.headless.client_commands import offered_commands  # only for a client

            names["slash_commands"] = offered_commands(session)
        mode = session.permission_mode
        served = session.agent_factory.toolset.serving
        about = (agent.model.card.name, mode, names, served.views())
        opening = init_object(session.id, str(session.agent_factory.work_directory), *about)
        outlet.json_line({**opening, "output_style": session.settings.output_style or "default"})


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
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
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
