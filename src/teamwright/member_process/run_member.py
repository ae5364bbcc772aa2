"""The run of a member process: connect to the lead, or join an external team, run the member, and report its end.

Ends when the member ends, on the lead's command, at SIGTERM, SIGINT without a terminal and SIGHUP, and when the lead
was gone for longer than the grace period: then the member keeps its place. With an external lead it ends when that lead
is gone. Depends on the parts of this package; those for an external team load only for a member of one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.member_process.join_team import OnStarted, RunningMember, end_work, join_team
from teamwright.member_process.lead_connection import LEAD_GONE, LeadConnection
from teamwright.protocol.errors import CannotStart, TeamwrightError, UsageError
from teamwright.protocol.member_flags import MemberFlags
from teamwright.session.spawn_file import VARIABLE, SpawnFile, discard, restore_variables
from teamwright.team_records.file_stores import FileStores

if TYPE_CHECKING:
    from teamwright.member_process.external_member_lifetime import ExternalMembership
    from teamwright.member_process.remote import RemoteMember


ENDED_BY = {signal.SIGTERM: "was asked to end by SIGTERM", signal.SIGHUP: "its terminal was closed"}


def take_spawn_file(flags: MemberFlags, env: Mapping[str, str]) -> SpawnFile:
    """Read the spawn file of this process, and delete it.

    Raises CannotStart, and UsageError when flags and file name different members.
    """
    path = env.get(VARIABLE)
    if not path:
        raise CannotStart(
            "backend",
            "a member's process is started by its lead, with a spawn file",
            looked_at=[("variable", VARIABLE)],
            do=["teamwright starts one for each member with a process backend"],
            note="nothing was started",
        )
    spawn = SpawnFile.read(Path(path))
    discard(Path(path).parent)
    if (flags.agent_name, flags.team_name) != (spawn.member, spawn.team):
        raise UsageError("usage", f"the spawn file is for {spawn.member} of {spawn.team}", note="nothing was started")
    return spawn


@asynccontextmanager
async def running_member(spawn: SpawnFile, begun: OnStarted | None = None) -> AsyncGenerator[RunningMember]:
    """Run the member until the block or the member ends, and report its end. Raises TeamwrightError at the start.

    `begun` receives its log before the first event.
    """
    os.environ.pop(VARIABLE, None)
    restore_variables()
    async with AsyncExitStack() as stack:
        remote = None
        if spawn.database:
            from teamwright.member_process.remote import open_remote_member

            remote = await open_remote_member(spawn, stack)
        async with _connected_member(spawn, begun, remote) as member:
            yield member


@asynccontextmanager
async def _connected_member(
    spawn: SpawnFile, begun: OnStarted | None, remote: RemoteMember | None
) -> AsyncGenerator[RunningMember]:
    line = LeadConnection(spawn)
    await line.open()
    try:
        async with join_team(spawn, line, begun, remote) as member:
            keeping = asyncio.create_task(_keep(member), name="line to the lead")
            handle_signals(member.led_member.end)
            try:
                yield member
            finally:
                keeping.cancel()
                await _see_out(member)
                ignore_signals()
    except TeamwrightError as problem:
        await line.report_failure(problem)
        raise
    except BaseException as problem:
        if not line.is_closed:
            await line.close("failed", f"{type(problem).__name__}: {problem}")
        raise


async def _keep(member: RunningMember) -> None:
    """Keep the connection. Without a lead the member leaves, and a resume continues it."""

    def remove_locks(is_there: bool) -> None:
        if not is_there:
            FileStores(member.team.home).remove_dead_locks(member.team.directory)

    member.line.follow(remove_locks)
    await member.line.keep_connected(member.watcher)
    if member.line.gone.is_set():
        member.led_member.end("suspended", LEAD_GONE)


async def _see_out(member: RunningMember) -> None:
    """End the member's work, then notify the lead."""
    member.led_member.end("suspended", "its process was ended")
    task, ended = member.teammate.run_task, await member.led_member.wait_until_ended()
    if task is not None:
        await asyncio.wait({task}, timeout=member.team.settings.cancel_grace_s)
    await end_work(member.agent_factory)
    await member.line.close(ended.how, ended.cause, ended.agreed_to)


def handle_signals(end: Callable[[str, str], None]) -> None:
    """End the member on signals: `end` receives how, and the reason."""
    loop = asyncio.get_running_loop()
    for number, why in ENDED_BY.items():
        with suppress(ValueError, RuntimeError):  # not the main thread, whose signals belong to the program
            loop.add_signal_handler(number, end, "suspended", why)


def ignore_signals() -> None:
    """Ignore signals to end, because the member is ending and its terminal may be closed at any moment."""
    loop = asyncio.get_running_loop()
    for number in ENDED_BY:
        with suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


@asynccontextmanager
async def run_external_member(flags: MemberFlags, env: Mapping[str, str]) -> AsyncGenerator[ExternalMembership]:
    """Run the member until the block or the member ends. Raises TeamwrightError when it cannot start."""
    from teamwright.member_process.join_external import join_external_team

    member: ExternalMembership | None = None
    early: list[tuple[str, str]] = []

    def end(how: str, why: str) -> None:
        if member is None:
            early.append((how, why))
        else:
            member.end(how, why)

    async with AsyncExitStack() as stack:
        # A signal that ended the process while it joins would leave its name on the roster of the external team.
        handle_signals(end)
        member = await join_external_team(flags, env, stack)
        for how, why in early[:1]:
            member.end(how, why)
        try:
            yield member
        finally:
            await member.finish()
