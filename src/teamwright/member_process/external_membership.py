"""One member in a team that another program leads: the team that it finds, its incarnation, and its orderly end.

The flags of the process name no state root. It is `TEAMWRIGHT_HOME`, else the first of Teamwright's root and the other
product's that has the team. A lead that starts the name again replaces its roster entry, which begins a new
incarnation; otherwise the unfinished one of an earlier process continues.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.external.external_lead import LeadPresence
from teamwright.external.roster import (
    RESUMABLE_ENDS,
    DepartingMember,
    Departure,
    MembershipFile,
    MembershipRecord,
    OwnRosterEntry,
    leave_team,
    read_record,
)
from teamwright.member_process.member import MemberEnd, MemberLifetime
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import CannotStart, InvalidName, StorageError, TeamwrightError, UsageError
from teamwright.protocol.events import MemberChanged, MessageSent, Notice, TeamEvent
from teamwright.protocol.ids import (
    LEAD,
    SessionId,
    agent_id,
    keyed_id,
    member_name,
    message_id,
    now_ms,
    parse_agent_id,
    session_id,
    team_dir,
    team_name,
)
from teamwright.protocol.mail import IdleNotification, wire_type
from teamwright.protocol.member_flags import MemberFlags
from teamwright.protocol.members import MemberState, RosterMember, TeamConfig
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.command_start import require_platform
from teamwright.storage.event_log import EventLog
from teamwright.storage.paths import FOREIGN_ROOT, Home, find_home
from teamwright.tasks.task_store import TaskFollower
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.life_cycle import BUSY_STATES
from teamwright.team_records.roster import Roster
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import Incarnation, process_directory
from teamwright.teams.team import SessionTeam


class ExternalMembership(MemberLifetime):
    """One member that lives in this process. `file` has its record, `pane` is the pane in which its lead started it."""

    name: str
    team: SessionTeam
    agent_factory: AgentFactory
    log: EventLog
    file: MembershipFile
    place: OwnRosterEntry
    presence: LeadPresence
    pane: str = ""
    warnings: tuple[str, ...] = ()
    _deserted: bool = False
    _tasks_changed: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    @property
    def record(self) -> MembershipRecord:
        """The present record of the membership."""
        return self.file.record

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────

    def record_event(self, _number: int, event: TeamEvent) -> None:
        """Record an event: the lead reads on the roster whether the member is in a turn."""
        if isinstance(event, MemberChanged) and event.member == self.name:
            active = event.state in BUSY_STATES and event.state != MemberState.PENDING
            self.place.set_active(active)
            if active:
                self.presence.note_work()
        elif isinstance(event, MessageSent) and event.wire == wire_type(IdleNotification) and event.to == LEAD:
            self.presence.note_sent(event.message_id)

    def check_mail(self) -> None:
        """Read the inbox after a change: answers to calls are taken at once, also during a turn."""
        if self.team.find_in_process(self.name) is None:
            return  # other requests of the lead wait for the incarnation
        self.team.wake(self.name)
        self._begin(self.team.mailbox(self.name).unread())

    def check_tasks(self, known: TaskFollower, names: Collection[str] | None) -> None:
        """Read changed files of the task list: a task may have become free."""
        self._begin(known.check_files(names), self._ring_idle)

    def _ring_idle(self) -> None:
        self._tasks_changed.set()
        if self.teammate is not None and self.teammate.state is MemberState.IDLE:
            self.teammate.incoming.wake()

    def _begin(self, looking: Any, then: Callable[[], None] = lambda: None) -> None:
        task = asyncio.ensure_future(looking)
        self._looking.add(task)

        def looked(done: asyncio.Task[Any]) -> None:
            self._looking.discard(done)
            problem = None if done.cancelled() else done.exception()
            if problem is not None:
                self.say(problem.what if isinstance(problem, TeamwrightError) else repr(problem), "warning")
            then()

        task.add_done_callback(looked)

    def say(self, text: str, level: str) -> None:
        """Emit a notice for people."""
        self.team.emit(Notice(member=self.name, text=text, level=level))

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────

    def lead_is_gone(self, why: str) -> None:
        """End the member because its lead is gone."""
        self._deserted = True
        self.end("suspended", why)

    async def finish(self) -> MemberEnd:
        """End the member's work, notify its lead, and remove its roster entry."""
        self.end("suspended", "its process was ended")
        ended = await self.wait_until_ended()
        if self.teammate is not None and self.teammate.run_task is not None:
            await asyncio.wait({self.teammate.run_task}, timeout=self.team.settings.cancel_grace_s)
        await self.agent_factory.toolset.jobs.close()
        self.presence.close()
        departure = self.record.departure or Departure(ended.how, ended.cause, ended.agreed_to or "", message_id())
        stays = departure.how in RESUMABLE_ENDS
        if not stays:
            self.file.change(departure=departure)
        await leave_team(self.team, self._leaver(), departure, self.say)
        if not stays:
            self.file.change(is_over=True)
        return ended

    def _leaver(self) -> DepartingMember:
        record = self.record
        return DepartingMember(
            self.name,
            record.incarnation.incarnation,
            self.place,
            self.pane,
            record.found,
            self._tasks_changed,
            lead_gone=self._deserted,
        )

    async def close(self) -> None:
        """Stop watching."""
        for task in list(self._looking):
            task.cancel()
        if self._looking:
            await asyncio.wait(self._looking)


GENERAL = "general-purpose"


class MemberIncarnation(Struct, frozen=True):
    """The transcript of this incarnation, and the record of an earlier process; None for a new incarnation."""

    transcript: Path
    record: MembershipRecord | None

    @property
    def room(self) -> Path:
        """The directory of its files."""
        return process_directory(self.transcript)


def find_incarnation(found: ExternalTeam, cwd: Path) -> MemberIncarnation:
    """Return the last incarnation of the name in that session, unless it ended; else a new one. Raises StorageError."""
    number = 1
    last = None
    while True:
        stem = found.name if number == 1 else f"{found.name}-{number}"
        path = found.home.agent_transcript(cwd, found.session, stem)
        record = read_record(process_directory(path))
        if record is None and not path.exists():
            break
        if record is not None and record.entry.name == found.name:
            last = MemberIncarnation(path, record)
        number += 1
    if last is not None and last.record is not None and _is_resumable(last.record, found):
        return last
    return MemberIncarnation(path, None)


def _is_resumable(record: MembershipRecord, found: ExternalTeam) -> bool:
    if record.is_over or not record.is_for_team(found.directory, found.config.created_at):
        return False
    entry = found.config.find(found.name)
    return entry is None or entry.joined_at == record.entry.joined_at


def own_entry(found: ExternalTeam, flags: MemberFlags, model: str, cwd: Path) -> RosterMember:
    """Return the roster entry of a member that its lead did not add. It has no pane, which only the lead knows."""
    return RosterMember(
        agent_id=agent_id(found.name, found.config.name),
        name=found.name,
        agent_type=flags.agent_type or GENERAL,
        model=flags.model or model,
        prompt="",
        color=flags.agent_color or "blue",
        plan_mode_required=found.plans,
        joined_at=now_ms(),
        pane_id="",
        cwd=str(cwd),
        backend_type="detached",
    )


def new_incarnation(
    found: ExternalTeam, flags: MemberFlags, agent_factory: AgentFactory, transcript: Path
) -> tuple[SpawnSpec, Incarnation, list[str]]:
    """Return the spec and incarnation of a new member, and lines about what differs from the request.

    An unknown agent type becomes the general one, as in the other product. Raises UsageError.
    """
    differences: list[str] = []
    spec = SpawnSpec(prompt="", name=found.name, agent_type=flags.agent_type or GENERAL, plan_mode_required=found.plans)
    try:
        spec = agent_factory.resolver.resolve(spec)
    except UsageError as problem:
        if spec.agent_type == GENERAL:
            raise
        differences.append(f"{problem.what}: {found.name} is of the kind {GENERAL}")
        spec = agent_factory.resolver.resolve(
            SpawnSpec(prompt="", name=found.name, agent_type=GENERAL, plan_mode_required=found.plans)
        )
    incarnation = Incarnation(
        now_ms(),
        str(transcript),
        "",
        model=spec.model,
        max_turns=spec.max_turns,
        budget=spec.budget,
        bounds=spec.bounds,
        mode=spec.mode or "",
        effort=spec.effort,
    )
    return spec, incarnation, differences


ROOT_VARIABLE = "CLAUDE_CONFIG_DIR"
"""The variable with the other product's root, which is `~/.claude` by default."""

WHOLE_S = 10.0
"""Seconds to wait for a roster that is being written."""

_NOTHING = "nothing was started"
_IGNORED = {
    "--lead-verify-key": "--lead-verify-key is not used: how the lead signs its messages is not known, so lead_sig is "
    "kept and not verified",
}
_MODES = frozenset({Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.DONT_ASK, Mode.BYPASS, Mode.PLAN})


class ExternalTeam(Struct, frozen=True):
    """The team of the member with these flags, in the directory `directory` of this home."""

    home: Home
    directory: str
    config: TeamConfig
    session: SessionId
    name: str
    mode: Mode | None
    plans: bool
    warnings: tuple[str, ...] = ()


async def find_external_team(flags: MemberFlags, env: Mapping[str, str]) -> ExternalTeam:
    """Find the team of this member. Raises TeamwrightError (`unknown-team`), UsageError for flags of no member."""
    require_platform()
    name = member_name(flags.agent_name)
    team = team_name(flags.team_name)
    if parse_agent_id(flags.agent_id)[0] != name:
        raise UsageError("usage", f"--agent-id {flags.agent_id[:80]} is not {name}'s", note=_NOTHING)
    home, directory = _root(team, env)
    home.prepare()
    config = await _complete_roster(Roster(FileStores(home).roster(directory)))
    _require_stranger(home, directory, name)
    mode, warnings = _mode(flags)
    warnings += tuple(_IGNORED.get(flag, f"the flag {flag} is not known here and is ignored") for flag in flags.ignored)
    session = _session(flags, config, directory)
    plans = flags.plan_mode_required or mode is Mode.PLAN
    return ExternalTeam(home, directory, config, session, name, None if mode is Mode.PLAN else mode, plans, warnings)


async def find_team_of_failed_start(flags: MemberFlags, env: Mapping[str, str]) -> ExternalTeam:
    """Find the team of a failed start, for the report to its lead. Raises TeamwrightError."""
    home, directory = _root(team_name(flags.team_name), env)
    config = await _complete_roster(Roster(FileStores(home).roster(directory)))
    session = _session(flags, config, directory)
    return ExternalTeam(home, directory, config, session, member_name(flags.agent_name), None, False)


def _root(team: str, env: Mapping[str, str]) -> tuple[Home, str]:
    own_root = env.get("TEAMWRIGHT_HOME")
    theirs = env.get(ROOT_VARIABLE) or f"~/{FOREIGN_ROOT}"
    roots = [find_home(own_root)] if own_root else [find_home("~/.teamwright"), find_home(theirs)]
    directory = team_dir(team)
    for home in roots:
        if home.team(directory).is_dir():
            if not own_root and home.shared == find_home(theirs).shared and not home.is_foreign:
                raise _unnamed(home.shared)
            return home, directory
    raise TeamwrightError(
        "unknown-team",
        f"there is no team {team}",
        looked_at=[("looked in", str(home.shared / "teams" / directory)) for home in roots],
        do=["set TEAMWRIGHT_HOME to the state root of the team's lead", "have the lead make the team first"],
        note=_NOTHING,
    )


def _unnamed(root: Path) -> TeamwrightError:
    return TeamwrightError(
        "unknown-team",
        f"the root of another program is known by its name, {FOREIGN_ROOT}, and {root} has another",
        looked_at=[("variable", ROOT_VARIABLE)],
        do=[f"name it by a link: ln -s {root} DIR/{FOREIGN_ROOT}; export TEAMWRIGHT_HOME=DIR/{FOREIGN_ROOT}"],
        note=_NOTHING,
    )


async def _complete_roster(roster: Roster) -> TeamConfig:
    """Return the roster, once it is completely written. Raises StorageError, TeamwrightError (`unknown-team`)."""
    deadline = asyncio.get_running_loop().time() + WHOLE_S
    while True:
        try:
            return await roster.read()
        except StorageError as problem:
            if problem.slug != "damaged-file" or asyncio.get_running_loop().time() >= deadline:
                raise


def _require_stranger(home: Home, directory: str, name: str) -> None:
    """Refuse a member that Teamwright's own lead started, which has a spawn file."""
    file = FileStores(home).read_state(directory)
    if file is not None and name.lower() in file.incarnation_records:
        raise CannotStart(
            "backend",
            f"{name} is a member that Teamwright itself leads, and its process is started by that lead",
            looked_at=[("team", str(home.team(directory)))],
            note=_NOTHING,
        )


def _session(flags: MemberFlags, config: TeamConfig, directory: str) -> SessionId:
    """Return the lead's session; without one in flags and roster, an id that the team always has."""
    for candidate in (flags.parent_session_id, config.lead_session_id):
        try:
            return session_id(candidate)
        except InvalidName:
            continue
    return SessionId(keyed_id("guest", directory, config.created_at))


def _mode(flags: MemberFlags) -> tuple[Mode | None, tuple[str, ...]]:
    """Return the mode that the flags name; an unknown one becomes the default."""
    if flags.dangerously_skip_permissions:
        return Mode.BYPASS, ()
    if not flags.permission_mode:
        return None, ()
    found = next((mode for mode in _MODES if mode == flags.permission_mode), None)
    if found is not None:
        return found, ()
    return Mode.DEFAULT, (f"the mode {flags.permission_mode[:40]} is not known here: {Mode.DEFAULT} holds",)


def working_directory() -> Path:
    """Return the working directory, as a real path. Raises CannotStart when it was deleted."""
    try:
        return Path(os.path.realpath(os.getcwd()))
    except OSError as problem:
        raise CannotStart("unknown-session", f"the working directory is gone: {problem}", note=_NOTHING) from None
