"""The launcher of member processes: start in a backend and handshake, or an error with the last output and no remains.

A resume reconnects to a process that still runs and replaces any other. Depends on backends, the IPC connection and the
team.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from teamwright.backends.choice import is_remote
from teamwright.backends.connections import MemberConnections, ProcessHost
from teamwright.backends.process_teammate import ProcessTeammate
from teamwright.backends.watched_process import process_tree, wait_set
from teamwright.processes.process_records import end_orphans
from teamwright.protocol.errors import CannotStart, TeamRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.members import IN_PROCESS, RosterMember
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.team_records.life_cycle import ENDED_STATES, LifecycleEvent
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import Incarnation, process_directory
from teamwright.teams.backend import Backend, Location
from teamwright.teams.outgoing_mail import held_senders
from teamwright.teams.shutdown import process_end
from teamwright.teams.shutdown_answers import find_agreement
from teamwright.teams.spawn import (
    START_S,
    change_entry,
    incarnation_mode,
    save_location,
    set_location,
    start_in_process,
)
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate
from teamwright.teams.undelivered_mail import return_late_mail

READY_S = START_S
"""Seconds until a process must be ready."""

RECONNECT_S = 10.0
"""Seconds until a process that outlived its lead must connect to the next one."""

_PROBE_S = 0.5
"""Seconds between checks whether the process still runs, until it has connected."""

_END_S = 2.0
"""Seconds that a process may take to end after SIGTERM."""


class ProcessLauncher:
    """A launcher of members in separate processes (see `TeammateLauncher`)."""

    def __init__(self, team: SessionTeam, housing: ProcessHost, exchange: MemberConnections) -> None:
        self.team = team
        self.host = housing
        self.hub = exchange
        self._backends: dict[str, Backend] = {}

    async def choose_backend(self, spec: SpawnSpec) -> str:
        chosen = await self.host.choose_backend(spec)
        if chosen is None:
            return IN_PROCESS
        kind, place = chosen
        self._backends[kind] = place
        return kind

    @property
    def choice_reason(self) -> str:
        return self.host.choice_reason

    async def start(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        place = self._backends[member.backend_type or ""]
        process = self._make_teammate(member, incarnation, place, secrets.token_hex(16))
        await self._start(process, member, incarnation, undo, resumed=False)
        return process

    async def resume(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        """See `TeammateLauncher`. Raises TeamRefused for a member that has agreed to stop, also during the start."""
        location, place = await self._locate(incarnation)
        if location is not None and place is not None:
            process = self._make_teammate(member, incarnation, place, self.host.process_token(incarnation))
            process.location = location
            if await self._reconnect(process, incarnation):
                self._add_member(process, member, undo)
                process.has_started = True
                if process.pending_plan.is_open:  # it waits for an answer here, or receives the one that it missed
                    with suppress(TeamwrightError):  # it has ended, and its end is handled
                        await process.perform("plan_answered")
                return process
        await self.clean_up(incarnation)
        if find_agreement(self.team.requests, member.name, incarnation.incarnation) is not None:
            raise TeamRefused("team-refused", f"{member.name} has agreed to stop", note="nothing was started")
        kind = await self._current_backend(member)
        if kind == IN_PROCESS:
            return await self._resume_in_process(member, incarnation, undo)
        member = replace(member, backend_type=kind, pane_id="")
        process = self._make_teammate(member, incarnation, self._backends[kind], secrets.token_hex(16))
        process.last_event_number = self.host.last_event_number(process.name, incarnation)
        await self._start(process, member, incarnation, undo, resumed=True)
        return process

    async def clean_up(self, incarnation: Incarnation) -> None:
        location, place = await self._locate(incarnation)
        if location is not None and place is not None:
            await place.close(location)
        room = process_directory(Path(incarnation.transcript))
        if location is not None and lease_held(lease_path(room)) and (family := process_tree(location)) is not None:
            await family.terminate(_END_S)  # its location is gone, or its backend does not see it, and it runs
        await asyncio.to_thread(end_orphans, room)
        self.host.discard(room)
        self.hub.requests.process_ended("", room)

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _locate(self, incarnation: Incarnation) -> tuple[Location | None, Backend | None]:
        """Return the location of its process, and the backend, if one of that kind is available."""
        location = Location.from_json(incarnation.place) if incarnation.place is not None else None
        return location, await self.host.backend_for(location) if location is not None else None

    async def _current_backend(self, member: RosterMember) -> str:
        """Return the backend for a resumed member: its former one, else an available one, so that no member is lost.

        A different backend causes a notice.
        """
        was = member.backend_type or ""
        try:
            return await self.choose_backend(SpawnSpec(prompt="", name=member.name, backend=was))
        except TeamwrightError as problem:
            why = problem.what
        try:
            kind = await self.choose_backend(SpawnSpec(prompt="", name=member.name))
        except TeamwrightError:
            kind = IN_PROCESS
        where = "in the lead's process" if kind == IN_PROCESS else f"in {kind}"
        text = f"{member.name} ran in {was} and continues {where}: {why}"
        self.team.emit(Notice(member=member.name, text=text, level="warning"))
        return kind

    async def _resume_in_process(
        self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack
    ) -> Teammate:
        """Resume in this process a member that had a separate process."""
        team = self.team
        home = Location(IN_PROCESS, IN_PROCESS)
        await save_location(team.state, member.name, None)
        await change_entry(team, member.name, set_location(home))
        member = replace(member, backend_type=IN_PROCESS, pane_id=IN_PROCESS)
        return await start_in_process(team, member, replace(incarnation, place=None), undo, resumed=True)

    def _make_teammate(
        self, member: RosterMember, incarnation: Incarnation, backend: Backend, token: str
    ) -> ProcessTeammate:
        team = self.team

        async def over(name: str, cause: str, agreed: str | None) -> None:
            await process_end(team, name, cause, agreed)
            await return_late_mail(team)  # its last messages to members that had ended, which it could not know yet

        return ProcessTeammate(
            emit=team.emit,
            incarnation=incarnation.incarnation,
            member_name=member.name,
            transcript=Path(incarnation.transcript),
            token=token,
            doorbell=TeamDoorbells(team.home, team.directory).path(member.name),
            backend=backend,
            is_remote=is_remote(member.backend_type or ""),
            report_end=over,
            held_senders=lambda name: held_senders(team, name),
            lead_mode=lambda: str(team.lead_policy.effective_mode),
            find_agreement=partial(find_agreement, team.requests, member.name, incarnation.incarnation),
            color=member.color,
            model=member.model or "",
            agent_type=member.agent_type,
            team_changed=team.changed,
            call=incarnation.call,
            reported_mode=incarnation_mode(member, incarnation) or "",
            secrets=team.secrets,
        )

    async def _start(
        self,
        process: ProcessTeammate,
        member: RosterMember,
        incarnation: Incarnation,
        undo: AsyncExitStack,
        *,
        resumed: bool,
    ) -> None:
        team = self.team
        await self.hub.open()
        undo.callback(self.host.discard, process_directory(process.transcript))
        launch = self.host.build_launch(member, incarnation, process.token, resumed=resumed)
        if team.closing:
            raise TeamRefused("team-refused", "the session is ending", note="nothing was started")
        self._add_member(process, member, undo)
        location = process.location = await process.backend.open(launch)
        await save_location(team.state, member.name, location.to_json())
        await change_entry(team, member.name, set_location(location))
        if location.note:
            team.emit(Notice(member=member.name, text=location.note))
        await self._wait_until_ready(process)
        process.has_started = True
        if process.state in ENDED_STATES and not process.turns and not resumed:
            raise TeamRefused("team-refused", f"{member.name} was ended while it started", note="nothing was started")

    def _add_member(self, process: ProcessTeammate, member: RosterMember, undo: AsyncExitStack) -> None:
        """Add the process to the team's members; `undo` removes it."""
        team = self.team
        self.hub.expect(process)
        undo.push_async_callback(self._remove_member, process)
        team.members[member.name] = process
        team.external.own_entries[member.name] = member
        team.external.process_names.add(member.name.lower())
        process.run_task = asyncio.create_task(process.run(), name=f"process of {member.name}")
        process.run_task.add_done_callback(lambda _: self._on_process_end(process))
        team.changed.set()

    def _on_process_end(self, process: ProcessTeammate) -> None:
        self.hub.forget(process)
        self.hub.requests.process_ended(process.name, process_directory(process.transcript))
        self.team.changed.set()

    async def _wait_until_ready(self, process: ProcessTeammate) -> None:
        """Wait until the process can receive messages. Raises its own error, or CannotStart with its last output."""
        try:
            async with time_limit(READY_S):
                while not await wait_set(process.ready, _PROBE_S):
                    await self._require_alive(process)
        except TimeoutError:
            raise await self._start_error(process, f"was not ready within {READY_S:.0f} s") from None
        if process.start_error is not None:
            raise process.start_error
        if process.wire is None:
            raise await self._start_error(process, "ended while it started")

    async def _require_alive(self, process: ProcessTeammate) -> None:
        if process.location is None or process.connected.is_set() or await process.backend.is_alive(process.location):
            return
        if not process.connected.is_set():
            raise await self._start_error(process, "ended before it called")

    async def _start_error(self, process: ProcessTeammate, how: str) -> CannotStart:
        output = await process.last_output()
        return CannotStart(
            "backend",
            f"the process of {process.name} {how}",
            looked_at=[("it said", line) for line in output.splitlines()[-8:]],
            note="nothing was started",
        )

    async def _reconnect(self, process: ProcessTeammate, incarnation: Incarnation) -> bool:
        """Return True when its process outlived the lead and has reconnected."""
        room = process_directory(Path(incarnation.transcript))
        if not process.token or not lease_held(lease_path(room)):
            return False
        process.last_event_number = self.host.last_event_number(process.name, incarnation)
        self.hub.expect(process)
        await self.hub.open()
        if await wait_set(process.connected, RECONNECT_S):
            return True
        self.hub.forget(process)
        return False

    async def _remove_member(self, process: ProcessTeammate) -> None:
        """Remove a member whose start failed."""
        process.end_cause = "it could not be started"
        team = self.team
        trouble = await process.terminate(team.settings.cancel_grace_s)
        if trouble:
            team.emit(Notice(member=process.name, text=trouble, level="warning"))
        self.hub.read_missed_events(process)
        process.disconnected.set()
        if process.state not in ENDED_STATES:
            process.transition(LifecycleEvent.FAILED, process.end_cause)
        if team.members.get(process.name) is process:
            del team.members[process.name]
        team.external.own_entries.pop(process.name, None)
