"""Our member's entry on a roster that another program leads: found or created, kept, and removed at the end.

The entry shows whether a turn runs, is restored when other programs overwrite it, and reading it shows the other
members, whose entries stay unchanged. Depends on config.json.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from teamwright.external.inbox import ExternalTeamInbox
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.ids import LEAD, iso_time
from teamwright.protocol.mail import InboxEntry, ShutdownApproved
from teamwright.protocol.members import MemberState, RosterMember, TeamConfig, parse_member
from teamwright.protocol.task import TaskStatus
from teamwright.storage.files import storage_error, write_atomic
from teamwright.storage.paths import make_private
from teamwright.team_records.team_state import Incarnation, parse_incarnation
from teamwright.teams.outgoing_mail import default_summary
from teamwright.teams.plan_requests import close_plans
from teamwright.teams.team import SessionTeam

RESUMABLE_ENDS = frozenset({str(MemberState.SUSPENDED)})
"""Ends after which a new start with the same flags resumes the incarnation; its tasks stay with it."""


class DepartingMember(Struct, frozen=True):
    """A member that leaves: its incarnation, its roster entry, and the pane in which its lead started it, if that is
    certain.

    `known_to_lead`: its lead's program had put it on the roster; `lead_gone`: the lead has ended. `tasks_changed` is
    set with each change of the list.
    """

    name: str
    incarnation: int
    roster_entry: OwnRosterEntry
    pane: str
    known_to_lead: bool
    tasks_changed: asyncio.Event
    lead_gone: bool = False


async def leave_team(
    team: SessionTeam, member: DepartingMember, departure: Departure, report: Callable[[str, str], None]
) -> None:
    """Complete the departure. A failed step is reported, and the next one is tried."""
    if not member.lead_gone:
        await _try_step("the lead could not be notified", _notify_lead(team, member, departure), report)
    await member.roster_entry.stop()
    await _try_step("its entry is still on the roster", member.roster_entry.leave(), report)
    if departure.how not in RESUMABLE_ENDS:
        await _try_step("its requests stay open", _close_requests(team, member, departure), report)
        await _try_step("its tasks could not be handed back", _hand_back_tasks(team, member), report)


async def _try_step(failing: str, step: Awaitable[None], report: Callable[[str, str], None]) -> None:
    try:
        await step
    except TeamwrightError as problem:
        report(f"{failing}: {problem.what}", "warning")


async def _notify_lead(team: SessionTeam, member: DepartingMember, departure: Departure) -> None:
    inbox = team.mailbox(LEAD)
    if not await inbox.contains(departure.told):
        entry = team.external.own_entries.get(member.name)
        color = entry.color if entry is not None else None
        text, summary = _farewell_text(member, departure)
        letter = InboxEntry(member.name, text, summary, iso_time(), color, departure.told)
        await inbox.put(letter, runtime=True)
    if isinstance(inbox, ExternalTeamInbox) and (left := await inbox.wait_until_sent(team.settings.shutdown_timeout_s)):
        raise TeamwrightError("lock-timeout", f"{left} messages to {LEAD} could not be written")


def _farewell_text(member: DepartingMember, departure: Departure) -> tuple[str, str | None]:
    if departure.agreed_to:
        approval = ShutdownApproved(
            request_id=departure.agreed_to,
            sender=member.name,
            timestamp=iso_time(),
            pane_id=member.pane or None,
            backend_type="tmux" if member.pane else None,
        )
        return approval.encode(), None
    text = f"{member.name} has ended: {departure.cause}."
    if departure.how in RESUMABLE_ENDS:
        text += " When it is started again with the same flags, it continues."
    return text, default_summary(text)


async def _close_requests(team: SessionTeam, member: DepartingMember, departure: Departure) -> None:
    close_plans(team.requests, member.name, member.incarnation, departure.cause)
    for request in team.requests.open_requests():
        mine = str(request.get("target", "")).lower() == member.name.lower()
        if request.get("kind") == "shutdown" and mine and request.get("incarnation") == member.incarnation:
            body = {"approve": True, "reason": departure.cause, "by": "system"}
            team.requests.answer(str(request["id"]), body)


async def _hand_back_tasks(team: SessionTeam, member: DepartingMember) -> None:
    """Hand back the member's tasks. A lead that knows the member does so itself and notifies its model: wait for that
    first.
    """
    if member.known_to_lead and not member.lead_gone:
        with suppress(TimeoutError):
            await asyncio.wait_for(_wait_until_free(team, member), team.settings.cancel_grace_s)
    await team.tasks.release(member.name, by=member.name)


async def _wait_until_free(team: SessionTeam, member: DepartingMember) -> None:
    while await _has_open_tasks(team, member.name):
        await member.tasks_changed.wait()
        member.tasks_changed.clear()


async def _has_open_tasks(team: SessionTeam, name: str) -> bool:
    tasks = await team.tasks.all()
    return any((t.owner or "").lower() == name.lower() and t.status is not TaskStatus.COMPLETED for t in tasks)


RECORD_NAME = "guest.json"
RECORD_VERSION = 1


class Departure(Struct, frozen=True):
    """The end of an incarnation: `how` and `cause` (see `leave_team`), `agreed_to` the request to stop that it agreed
    to.

    `told` is the id of the notice to its lead.
    """

    how: str
    cause: str
    agreed_to: str
    told: str


class MembershipRecord(Struct, frozen=True):
    """One incarnation of a member in the team of `directory` created at `created_at` (milliseconds since 1970).

    `entry` is its roster entry; `found`: the lead's program had created it. `mode` is the permission mode that the lead
    gave last; empty: that of the flags. `departure`: it is leaving; `is_over`: it has left.
    """

    directory: str
    created_at: int
    incarnation: Incarnation
    entry: RosterMember
    found: bool
    mode: str = ""
    departure: Departure | None = None
    is_over: bool = False

    def is_for_team(self, directory: str, created_at: int) -> bool:
        """Return True when the incarnation belongs to exactly that team: names are reused."""
        return (self.directory, self.created_at) == (directory, created_at)

    def write(self, directory: Path) -> None:
        """Write the record. Raises StorageError."""
        body = {
            "version": RECORD_VERSION,
            "directory": self.directory,
            "created_at": self.created_at,
            "life": self.incarnation.as_json(),
            "entry": self.entry.to_json(),
            "found": self.found,
            "mode": self.mode,
            "farewell": asdict(self.departure) if self.departure is not None else None,
            "over": self.is_over,
        }
        make_private(directory)
        write_atomic(directory / RECORD_NAME, json.dumps(body, indent=2, ensure_ascii=False).encode())


def read_record(directory: Path) -> MembershipRecord | None:
    """Return the record in that process directory, None without one. Raises StorageError, `damaged-file` for an invalid
    one.
    """
    path = directory / RECORD_NAME
    try:
        data = cast("dict[str, Any]", json.loads(path.read_bytes()))
        farewell = cast("Mapping[str, Any] | None", data.get("farewell"))
        return MembershipRecord(
            str(data["directory"]),
            int(data["created_at"]),
            parse_incarnation(data["life"]),
            parse_member(data["entry"]),
            data["found"] is True,
            str(data.get("mode", "")),
            None if farewell is None else Departure(**{key: str(value) for key, value in farewell.items()}),
            data.get("over") is True,
        )
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        do = [f"remove {path}: the member then starts with an empty conversation"]
        raise StorageError("damaged-file", f"{path} is not ours: {problem}", do=do) from problem


class MembershipFile:
    """The record of a member in the directory of its process. `report` shows a failed change to people, by level."""

    def __init__(self, directory: Path, report: Callable[[str, str], None]) -> None:
        self._directory = directory
        self._report = report
        self._record: MembershipRecord | None = None

    @property
    def record(self) -> MembershipRecord:
        """The present record, after the first `write`."""
        assert self._record is not None, "`write` comes before the member exists"
        return self._record

    def write(self, record: MembershipRecord) -> None:
        """Write the record. Raises StorageError."""
        self._record = record
        record.write(self._directory)

    def change(self, **changes: Any) -> None:
        """Change the record for the member's next process. A failed write is reported."""
        try:
            self.write(replace(self.record, **changes))
        except TeamwrightError as problem:
            self._report(f"a new start may not continue from here: {problem.what}", "warning")


MAX_REPAIRS = 6
"""Times a minute that it restores its entry; a program that overwrites it more often wins for the rest
of the minute.
"""

PATIENCE_S = 1.0
"""Seconds that a roster must be missing before its team counts as removed: it may be being replaced."""

RETRY_S = 2.0
"""Seconds until a roster that could not be read or written is tried again."""

_MINUTE_S = 60.0


class OwnRosterEntry:
    """The roster entry of the member of this name. `report` shows a message to people, by level.

    `on_roster` is called with each roster that was read, with None once the team's files are gone.
    """

    def __init__(self, team: SessionTeam, name: str, report: Callable[[str, str], None]) -> None:
        self.on_change: Callable[[TeamConfig | None], None] = _ignore_roster
        self.entry: RosterMember | None = None
        self._team = team
        self._name = name
        self._report = report
        self._active: bool | None = None
        self._dirty = asyncio.Event()
        self._repairs: deque[float] = deque()
        self._is_unusable = False
        self._retry_timer: asyncio.TimerHandle | None = None
        self._keep_task: asyncio.Task[None] | None = None

    # ── joining ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def join(self, new_entry: RosterMember) -> RosterMember:
        """Join the roster: with the existing entry, else with this one. Raises LockTimeout, StorageError."""

        def with_own_entry(config: TeamConfig) -> TeamConfig:
            return config if config.find(self._name) is not None else config.with_member(new_entry)

        config = await self._team.roster.change(with_own_entry)
        self.entry = config.find(self._name) or new_entry
        self._active = self.entry.is_active
        self._publish(config)
        return self.entry

    def keep(self) -> None:
        """Start keeping the entry."""
        self._keep_task = asyncio.create_task(self._keep_loop(), name=f"place of {self._name}")
        self.note_change()

    # ── keeping ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def note_change(self) -> None:
        """Record that the roster may have changed."""
        self._dirty.set()

    def set_active(self, active: bool) -> None:
        """Record whether the member is in a turn; nothing is written for one that never was."""
        if self._active is not active and (active or self._active is not None):
            self._active = active
            self._dirty.set()

    async def _keep_loop(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._check()
            except TeamwrightError as problem:
                if problem.slug == "unknown-team" and await self._is_removed():
                    self.on_change(None)
                    continue
                if not self._is_unusable:
                    self._is_unusable = True
                    self._report(f"the team's roster cannot be used just now: {problem.what}", "warning")
                self._retry_after(RETRY_S)

    async def _is_removed(self) -> bool:
        await asyncio.sleep(PATIENCE_S)
        return not self._team.roster.document.exists

    async def _check(self) -> None:
        config = await self._team.roster.read()
        found = config.find(self._name)
        if found is None and not self._may_repair():
            return
        if found is None or found.is_active != self._active:
            config = await self._team.roster.change(self._repair)
            if found is None:
                self._report(f"{self._name} put itself back on the roster: another program had overwritten it", "info")
        self.entry = config.find(self._name)
        self._publish(config)
        if self._is_unusable:
            self._is_unusable = False
            self._report("the team's roster can be used again", "info")

    def _repair(self, config: TeamConfig) -> TeamConfig:
        entry = config.find(self._name) or self.entry
        return config if entry is None else config.with_member(replace(entry, is_active=self._active))

    def _may_repair(self) -> bool:
        now = time.monotonic()
        while self._repairs and now - self._repairs[0] > _MINUTE_S:
            self._repairs.popleft()
        if len(self._repairs) < MAX_REPAIRS:
            self._repairs.append(now)
            return True
        if self._retry_timer is None:
            self._report(f"another program keeps taking {self._name} off the roster: it waits for a minute", "warning")
        self._retry_after(_MINUTE_S - (now - self._repairs[0]) + 0.1)
        return False

    def _retry_after(self, seconds: float) -> None:
        if self._retry_timer is None:
            self._retry_timer = asyncio.get_running_loop().call_later(seconds, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self.note_change()

    def _publish(self, config: TeamConfig) -> None:
        """Publish the roster's other members: for this process, other programs run all of them."""
        self._team.external.external_names = {one.name.lower() for one in config.teammates if one.name != self._name}
        self.on_change(config)

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self) -> None:
        """Stop keeping the entry."""
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        if self._keep_task is not None:
            self._keep_task.cancel()
            await asyncio.wait({self._keep_task})

    async def leave(self) -> None:
        """Remove our own entry and no other; harmless without one. Raises LockTimeout, StorageError."""
        try:
            await self._team.roster.change(lambda config: config.without_member(self._name))
        except TeamwrightError as problem:
            if problem.slug != "unknown-team":
                raise


def _ignore_roster(_config: TeamConfig | None) -> None: ...
