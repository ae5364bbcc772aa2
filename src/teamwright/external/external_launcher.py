"""The launcher of external programs as members: start in a backend and handshake, or an error with the last output.

A program has answered once it has read its first prompt, or reports that it is in a turn. A resume follows a program
that still runs; one that has ended has lost its conversation. Depends on backends and the team.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from teamwright.backends.watched_process import wait_set
from teamwright.external.external_member import ExternalMember, InboxSigns
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import CannotStart, TeamRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, parse_iso_ms
from teamwright.protocol.mail import ShutdownApproved, parse_protocol
from teamwright.protocol.members import RosterMember
from teamwright.storage.file_watcher import Watcher
from teamwright.team_records.life_cycle import ENDED_STATES, LifecycleEvent
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import Incarnation
from teamwright.teams.backend import Backend, Launch, Location
from teamwright.teams.backend_teammate import TeammateLauncher
from teamwright.teams.external_plans import mode_for_external
from teamwright.teams.outgoing_mail import send_note
from teamwright.teams.shutdown import process_end
from teamwright.teams.spawn import change_entry, save_location, set_location
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate


class ExternalStart(Struct, frozen=True):
    """The start of a program. `timeout_s`: seconds until it must have read its first prompt.

    `mode` is its permission mode, as shown to people.
    """

    launch: Launch
    mode: str
    timeout_s: float


class ExternalCommands(Protocol):
    """The port with the commands that a person configured for members."""

    async def choose_backend(self, spec: SpawnSpec) -> tuple[str, Backend]:
        """Return the name and the backend of a new member.

        Raises UsageError for an unknown command, or limits that the program cannot enforce; CannotStart when the
        program, its root or a backend is missing.
        """
        ...

    async def backend_for(self, location: Location) -> Backend | None:
        """Return the backend of this location, to probe or close it; None when there is none any more."""
        ...

    def build_start(self, member: RosterMember, incarnation: Incarnation) -> ExternalStart:
        """Return the start of the member's program. Raises CannotStart."""
        ...


_PROBE_S = 0.5
"""Seconds between checks whether the program still runs, until it has answered."""


class ExternalLauncher:
    """A launcher of members that other programs run (see `TeammateLauncher`)."""

    def __init__(self, team: SessionTeam, commands: ExternalCommands, watcher: Watcher) -> None:
        self.team = team
        self.commands = commands
        self._watcher = watcher
        self._backends: dict[str, Backend] = {}
        self._note_tasks: set[asyncio.Task[None]] = set()
        self._followed: dict[tuple[str, int], tuple[ExternalMember, Callable[[], None]]] = {}
        """The followed programs by name and incarnation, each with the function that ends this."""

    async def choose_backend(self, spec: SpawnSpec) -> str:
        kind, place = await self.commands.choose_backend(spec)
        self._backends[kind] = place
        return kind

    async def start(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        team = self.team
        start = self.commands.build_start(member, incarnation)
        stranger = self._make_member(member, incarnation, self._backends[member.backend_type or ""])
        stranger.reported_mode = start.mode
        if team.closing:
            raise TeamRefused("team-refused", "the session is ending", note="nothing was started")
        self._add_member(stranger, member, undo)
        location = stranger.location = await stranger.backend.open(start.launch)
        await save_location(team.state, member.name, location.to_json())
        await change_entry(team, member.name, set_location(location))
        if location.note:
            team.emit(Notice(member=member.name, text=location.note))
        await self._wait_until_started(stranger, start.timeout_s)
        self._start_run(stranger)
        stranger.start()
        return stranger

    async def resume(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        team = self.team
        location = Location.from_json(incarnation.place) if incarnation.place is not None else None
        if location is None:
            raise CannotStart("backend", "its start had come no further than its name")
        place = await self.commands.backend_for(location)
        if place is None or not await place.is_alive(location):
            await self.clean_up(incarnation)
            agreed = " after it agreed to stop" if self._has_agreed_to_stop(member.name, member.joined_at) else ""
            raise CannotStart("backend", f"its program has ended{agreed}, and its conversation with it")
        stranger = self._make_member(member, incarnation, place)
        mode = mode_for_external(team.lead_policy, Mode(incarnation.mode) if incarnation.mode else None)
        stranger.location = location
        stranger.reported_mode = str(Mode.PLAN if member.plan_mode_required else mode)
        self._add_member(stranger, member, undo)
        self._start_run(stranger)
        stranger.start(member.is_active)
        return stranger

    async def clean_up(self, incarnation: Incarnation) -> None:
        location = Location.from_json(incarnation.place) if incarnation.place is not None else None
        place = await self.commands.backend_for(location) if location is not None else None
        if location is not None and place is not None:
            await place.close(location)

    def _has_agreed_to_stop(self, name: str, since_ms: int) -> bool:
        """Return True when it agreed to stop while no lead ran."""
        with suppress(TeamwrightError):
            for entry in self.team.mailbox(LEAD).entries():
                mine = entry.sender.lower() == name.lower() and (parse_iso_ms(entry.timestamp or "") or 0) >= since_ms
                if mine and isinstance(parse_protocol(entry.text), ShutdownApproved):
                    return True
        return False

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_member(self, member: RosterMember, incarnation: Incarnation, backend: Backend) -> ExternalMember:
        team = self.team

        async def over(name: str, cause: str) -> None:
            await process_end(team, name, cause, None)  # it reported itself that it agreed

        def tell(text: str, summary: str) -> None:
            task = asyncio.create_task(self._send_note(member.name, text, summary), name=f"a note to {member.name}")
            self._note_tasks.add(task)
            task.add_done_callback(self._note_tasks.discard)

        return ExternalMember(
            emit=team.emit,
            incarnation=incarnation.incarnation,
            member_name=member.name,
            transcript=Path(incarnation.transcript),
            inbox_signs=InboxSigns(team.mailbox(member.name)),
            first_message_id=incarnation.first,
            backend=backend,
            report_end=over,
            read_lead_mail=lambda: team.mailbox(LEAD).unread(),
            send_note=tell,
            unfollow=partial(self._unfollow, member.name, incarnation.incarnation),
            color=member.color,
            model=member.model or "",
            agent_type=member.agent_type,
            team_changed=team.changed,
            call=incarnation.call,
            secrets=team.secrets,
        )

    async def _send_note(self, name: str, text: str, summary: str) -> None:
        try:
            await send_note(self.team, "system", name, text, summary)
        except TeamwrightError as problem:
            warning = f"a note did not reach {name}: {problem.what}"
            self.team.emit(Notice(member=name, text=warning, level="warning"))

    def _add_member(self, external: ExternalMember, member: RosterMember, undo: AsyncExitStack) -> None:
        """Add and follow the program as a member; `undo` removes it."""
        team = self.team
        external.inbox_signs.read_changes()  # its first prompt is in there
        unwatch = external.inbox_signs.mailbox.watch(self._watcher, external.check_inbox)
        self._followed[external.name, external.incarnation] = external, unwatch
        undo.push_async_callback(self._remove_member, external)
        team.members[member.name] = external
        team.external.own_entries[member.name] = member
        team.external.add_member(member.name, external)

    def _unfollow(self, name: str, incarnation: int) -> None:
        """Stop following the files of this program; harmless a second time."""
        external, unwatch = self._followed.pop((name, incarnation), (None, None))
        if unwatch is not None:
            unwatch()
        if external is not None and self.team.external.listeners.get(name.lower()) is external:
            self.team.external.remove_member(name)

    def _start_run(self, external: ExternalMember) -> None:
        external.run_task = asyncio.create_task(external.run(), name=f"program of {external.name}")
        external.run_task.add_done_callback(lambda _: self._on_program_end(external))

    def _on_program_end(self, external: ExternalMember) -> None:
        external.unfollow()
        self.team.changed.set()

    async def _wait_until_started(self, external: ExternalMember, timeout_s: float) -> None:
        """Wait until the program has answered. Raises CannotStart with its last output."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not await wait_set(external.started, min(_PROBE_S, max(0.0, deadline - loop.time()))):
            external.check_inbox()
            if loop.time() >= deadline:
                raise await self._start_error(external, f"did not read its first prompt within {timeout_s:g} s")
            self._require_not_ended(external)
            if external.location is None or not await external.backend.is_alive(external.location):
                raise await self._start_error(external, "ended before it read its first prompt")
        self._require_not_ended(external)

    def _require_not_ended(self, external: ExternalMember) -> None:
        if external.state in ENDED_STATES or self.team.closing:
            raise TeamRefused("team-refused", f"{external.name} was ended while it started", note="nothing was started")

    async def _start_error(self, external: ExternalMember, how: str) -> CannotStart:
        output = await external.last_output()
        return CannotStart(
            "backend",
            f"the program of {external.name} {how}",
            looked_at=[
                ("state root", str(self.team.home.shared)),
                *(("it said", line) for line in output.splitlines()[-8:]),
            ],
            do=[
                "start it once by hand in this directory: it may ask something first",
                "see docs/reference/external-members.md",
            ],
            note="nothing was started",
        )

    async def _remove_member(self, external: ExternalMember) -> None:
        """Remove a member whose start failed."""
        team = self.team
        external.end_cause = "it could not be started"
        if external.state not in ENDED_STATES:
            external.transition(LifecycleEvent.FAILED, external.end_cause)
        if trouble := await external.terminate(team.settings.cancel_grace_s):
            team.emit(Notice(member=external.name, text=trouble, level="warning"))
        if team.members.get(external.name) is external:
            del team.members[external.name]
        team.external.own_entries.pop(external.name, None)


class CombinedLauncher:
    """A launcher that passes each member to the launcher of our processes or to that of external programs."""

    def __init__(self, ours: TeammateLauncher, strangers: ExternalLauncher) -> None:
        self.processes = ours
        self._external = strangers

    async def choose_backend(self, spec: SpawnSpec) -> str:
        return await (self._external if spec.command else self.processes).choose_backend(spec)

    @property
    def choice_reason(self) -> str:
        return self.processes.choice_reason

    async def start(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        return await (self._external if incarnation.command else self.processes).start(member, incarnation, undo)

    async def resume(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        return await (self._external if incarnation.command else self.processes).resume(member, incarnation, undo)

    async def clean_up(self, incarnation: Incarnation) -> None:
        await (self._external if incarnation.command else self.processes).clean_up(incarnation)
