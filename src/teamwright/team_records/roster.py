"""The roster of a team: who is in it, the rules for names and colours, and its file, config.json.

The file is changed under its lock and renamed into place. Other products rewrite it without a lock: an empty or
truncated file is read again, and restored in the lead's process, if need be from team.json, the transcripts and the
inboxes. The caller knows which members are alive. Format: docs/reference/formats/roster.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.transcript import read_header
from teamwright.mail.inbox import read_entries
from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.events import FileMark
from teamwright.protocol.ids import COLORS, LEAD, LEAD_ALIAS, agent_id, inbox_stem, member_name, parse_iso_ms
from teamwright.protocol.indented_json import IndentedJson
from teamwright.protocol.mail import InboxEntry, parse_entry
from teamwright.protocol.members import IN_PROCESS, RosterMember, TeamConfig, parse_config, parse_member
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.storage.file_watcher import file_mark
from teamwright.storage.files import keep_damaged_copy, storage_error, write_atomic, write_new
from teamwright.storage.json_lines import read_lines
from teamwright.storage.locks import lock_for
from teamwright.storage.paths import Home, make_private
from teamwright.team_records.atomic_record import AtomicRecord
from teamwright.team_records.team_state import Incarnation, TeamFile, is_lead_alive, read_team_file

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher


class Roster:
    """The members of one team."""

    def __init__(self, document: RosterDocument) -> None:
        self.document = document

    async def read(self) -> TeamConfig:
        """Return the roster. Raises TeamwrightError (`unknown-team`), StorageError (`damaged-file`)."""
        config = await self.document.read()
        if config is None:
            raise TeamwrightError("unknown-team", f"there is no team in {self.document.place}")
        return config

    async def find(self, name: str) -> RosterMember:
        """Return the member of that name, in any case. Raises UnknownMember naming all members and the nearest."""
        return (await self.read()).get(name)

    async def join(
        self, member: RosterMember, *, is_alive: Callable[[RosterMember], bool] = bool, dedupe: bool = False
    ) -> RosterMember:
        """Add a new member; returns its entry with the colour it got.

        `is_alive` tells whether the process behind an entry is alive (by default every entry counts): an entry that is
        not is replaced, keeping its place and colour. A live namesake is refused (TeamRefused), or with `dedupe`
        the newcomer becomes `name-2`. Raises InvalidName, StorageError.
        """
        base_name = member_name(member.name)
        joined = member

        def added(config: TeamConfig) -> TeamConfig:
            nonlocal joined
            name = base_name
            namesake = _namesake(config, name)
            if namesake and is_alive(namesake):
                if not dedupe:
                    raise TeamRefused(
                        "team-refused",
                        f"{namesake.name} is already a live member of the team",
                        do=[
                            f"send {namesake.name} a message instead",
                            f"replace it: stop {namesake.name}, then spawn it again",
                        ],
                        note="nothing was started",
                    )
                name = _free_name(config, base_name)
                namesake = None
            color = member.color or (namesake.color if namesake else None) or _next_color(config)
            id = member.agent_id if name == member.name and member.agent_id else agent_id(name, config.name)
            joined = replace(member, name=name, agent_id=id, color=color)
            if namesake and namesake.name.lower() != name.lower():
                config = config.without_member(namesake.name)
            return config.with_member(joined)

        await self.change(added)
        return joined

    async def add(self, member: RosterMember) -> TeamConfig:
        """Add this entry, or replace the entry of its name; also restores an overwritten one."""
        return await self.change(lambda config: config.with_member(member))

    async def remove(self, name: str) -> RosterMember | None:
        """Remove the member of that name or agent id. Returns its entry, None when there was none."""
        removed_member: RosterMember | None = None

        def removed(config: TeamConfig) -> TeamConfig:
            nonlocal removed_member
            key = name.lower()
            removed_member = next((m for m in config.members if key in {m.name.lower(), m.agent_id.lower()}), None)
            if removed_member is not None and removed_member.is_lead:
                raise TeamRefused(
                    "team-refused", "the lead cannot be taken out of its team", note="nothing was changed"
                )
            return config.without_member(name)

        await self.change(removed)
        return removed_member

    async def set_mode(self, name: str, mode: str) -> RosterMember:
        """Record a member's permission mode. Raises UnknownMember."""
        return await self._set(name, lambda member: replace(member, mode=mode))

    async def set_active(self, name: str, active: bool) -> RosterMember:
        """Record whether a member with a separate process is in a turn. Raises UnknownMember."""
        return await self._set(name, lambda member: replace(member, is_active=active))

    async def change(self, change: Callable[[TeamConfig], TeamConfig]) -> TeamConfig:
        """Change the roster; see AtomicRecord. Raises what `read` raises, LockTimeout, LockLost."""
        return await self.document.change(change)

    async def _set(self, name: str, change: Callable[[RosterMember], RosterMember]) -> RosterMember:
        def changed(config: TeamConfig) -> TeamConfig:
            return config.with_member(change(config.get(name)))

        return (await self.change(changed)).get(name)


class RosterDocument(AtomicRecord[TeamConfig], Protocol):
    """The roster as a document. A missing one raises TeamwrightError (`unknown-team`)."""

    @property
    def exists(self) -> bool:
        """True when there is a roster."""
        ...


def _namesake(config: TeamConfig, name: str) -> RosterMember | None:
    """Return the entry that would share the name or the inbox file, in any case."""
    stem = inbox_stem(name).lower()
    return next((m for m in config.members if inbox_stem(m.name).lower() == stem), None)


def _free_name(config: TeamConfig, name: str) -> str:
    number = 2
    while _namesake(config, candidate := f"{name[:60]}-{number}"):
        number += 1
    return member_name(candidate)


def _next_color(config: TeamConfig) -> str:
    """Return the colour after that of the last member; a failed spawn that was removed uses none up."""
    last = next((m.color for m in reversed(config.members) if m.color in COLORS and not m.is_lead), None)
    return COLORS[0] if last is None else COLORS[(COLORS.index(last) + 1) % len(COLORS)]


OnRestored: TypeAlias = Callable[[str, str, str], None]
"""Receives the places of the roster and of the copy of the damaged one, and the source of the restored one."""


_READ_RETRIES = 3


_RETRY_S = 0.002


_LONG_RETRY_S = 0.025


BRIEF_PATIENCE_S = 0.25
"""Seconds that a damaged file is read again where no process restores it: another program may be writing it."""


_RESTORED_AFTER_S = 1.0
"""Seconds before the lead's process restores a damaged file."""


_LEAD_PATIENCE_S = 3.0
"""Seconds that other processes wait for the lead's to restore it."""


_MTIME_SLACK_NS = 12_000_000
"""File clocks tick at 1 to 10 ms: a younger file may change again without a new mtime."""


class RosterFile:
    """config.json of the team in one directory: the roster as a document (see RosterDocument).

    `on_restored` is given in the lead's process, which restores a file that stays damaged. `fsync`: writes survive
    power loss.
    """

    def __init__(
        self, home: Home, directory: str, on_restored: OnRestored | None = None, *, fsync: bool = False
    ) -> None:
        self.home = home
        self.directory = directory
        self.path = home.config(directory)
        self._fsync = fsync
        self._on_restored = on_restored
        self._cached: _CachedRoster | None = None
        self._encoder = IndentedJson()

    @property
    def place(self) -> str:
        """See AtomicRecord: the path of the file."""
        return str(self.path)

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def mark(self) -> FileMark | None:
        return file_mark(self.home.shared, self.path)

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        return watcher.follow(self.path, on_change)

    async def read(self, *, patience_s: float | None = None) -> TeamConfig:
        """Return the roster as it is on disk.

        Raises TeamwrightError (`unknown-team`) when there is no file, StorageError (`damaged-file`) when it stays
        unreadable for `patience_s`: by default 0.3 s, 1 s before the lead's process restores the file, and 3 s in other
        processes while a lead lives.
        """
        return await self._retry_while_damaged(self._read_once, patience_s)

    def create(self, config: TeamConfig) -> bool:
        """Write the first roster of a team. False, without a change, when there is one. Raises StorageError."""
        try:
            make_private(self.path.parent)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        return write_new(self.path, config.encode())

    async def change(self, change: Callable[[TeamConfig], TeamConfig]) -> TeamConfig:
        """Read the roster under its lock, change it, write it when it differs. Returns what is on disk then.

        `change` is plain code and may refuse by raising; then nothing is written. Raises what `read` raises,
        LockTimeout, LockLost.
        """
        return await self._retry_while_damaged(lambda: self._change(change))

    async def restore(self, config: TeamConfig) -> Path | None:
        """Write this roster when the file is damaged. Returns the copy of the damaged bytes, None when it is undamaged.

        Raises LockTimeout, LockLost, StorageError, TeamwrightError (`unknown-team`).
        """
        if not self.path.exists():
            raise self._missing_error()
        async with lock_for(self.path, self.home.guard(self.path)).hold() as lock:
            try:
                self._read()
            except StorageError as problem:
                if problem.slug != "damaged-file":
                    raise
            else:
                return None
            lock.check()
            copy = keep_damaged_copy(self.path)
            write_atomic(self.path, config.encode(self._encoder), fsync=self._fsync)
            self._cached = None
        return copy

    async def _read_once(self) -> TeamConfig:
        return self._read()

    async def _retry_while_damaged(
        self, work: Callable[[], Awaitable[TeamConfig]], patience_s: float | None = None
    ) -> TeamConfig:
        """Repeat the work while the file is damaged, and once it is restored; no wait happens under its lock."""
        began = time.monotonic()
        while patience_s is None or time.monotonic() - began < patience_s:
            try:
                return await work()
            except StorageError as problem:
                if problem.slug != "damaged-file":
                    raise
            patience_s = self._patience_s() if patience_s is None else patience_s
            await asyncio.sleep(_LONG_RETRY_S)
        await self._restore()
        return await work()

    def _patience_s(self) -> float:
        """Return the seconds for which a damaged file is read again."""
        if self._on_restored is not None:
            return _RESTORED_AFTER_S
        file = self._team_file()
        return _LEAD_PATIENCE_S if file is not None and is_lead_alive(file.lead) else BRIEF_PATIENCE_S

    async def _restore(self) -> None:
        """Restore the file in the lead's process: from memory, or from the team's other files."""
        if self._on_restored is None:
            return
        if self._cached is not None:
            config = self._cached.config
            source = "memory"
        elif (file := self._team_file()) is not None:
            config = rebuilt_roster(self.home, self.directory, file)
            source = "team.json and the transcripts"
        else:
            return
        if (copy := await self.restore(config)) is not None:
            self._on_restored(self.place, str(copy), source)

    def _team_file(self) -> TeamFile | None:
        with suppress(StorageError):
            return read_team_file(self.home.team_file(self.directory))
        return None

    async def _change(self, change: Callable[[TeamConfig], TeamConfig]) -> TeamConfig:
        if not self.path.exists():  # locking a removed team must not create it again
            raise self._missing_error()
        async with lock_for(self.path, self.home.guard(self.path)).hold() as lock:
            before = self._read()
            after = change(before)
            if after != before:
                lock.check()
                raw = after.encode(self._encoder)
                write_atomic(self.path, raw, fsync=self._fsync)
                self._cached = _CachedRoster(None, raw, after)
        return after

    def _read(self) -> TeamConfig:
        patience = _READ_RETRIES
        while True:
            try:
                return self._load()
            except StorageError as problem:
                if problem.slug != "damaged-file" or not patience:
                    raise
            patience -= 1
            time.sleep(_RETRY_S)

    def _load(self) -> TeamConfig:
        seen = self._cached
        try:
            if seen is not None and seen.mark == _stat_mark(os.stat(self.path)):
                return seen.config
            with open(self.path, "rb") as file:
                stat = os.fstat(file.fileno())
                raw = file.read()
        except FileNotFoundError:
            raise self._missing_error() from None
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        config = seen.config if seen is not None and seen.raw == raw else parse_config(raw)
        self._cached = _CachedRoster(
            _stat_mark(stat) if time.time_ns() - stat.st_mtime_ns > _MTIME_SLACK_NS else None, raw, config
        )
        return config

    def _missing_error(self) -> TeamwrightError:
        return TeamwrightError("unknown-team", f"there is no team in {self.path.parent}")


class _CachedRoster(NamedTuple):
    """The file as read or written last. `mark` is None while the file may change without another mtime."""

    mark: tuple[int, int, int] | None
    raw: bytes
    config: TeamConfig


def _stat_mark(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def rebuilt_roster(home: Home, directory: str, file: TeamFile) -> TeamConfig:
    """Return the roster of the team in `directory`, rebuilt from its team.json, the transcripts and the inboxes."""
    headers = {key: read_transcript_header(Path(one.transcript)) for key, one in file.incarnation_records.items()}
    name = _team_name(file, headers) or directory
    roster = parse_config(json.dumps(_facts_of_team(file, name)).encode())
    others = [member for member in roster.teammates if member.name.lower() not in file.incarnation_records]
    ours = [
        _rebuild_entry(home, directory, key, one, headers[key], name) for key, one in file.incarnation_records.items()
    ]
    entries = sorted([*ours, *others], key=lambda member: member.joined_at)
    return replace(roster, members=(*(member for member in roster.members if member.is_lead), *entries))


def _facts_of_team(file: TeamFile, name: str) -> dict[str, Any]:
    """Return the roster without our members: the recorded facts, else those of the lead's transcript."""
    lead = read_transcript_header(Path(file.lead.lease).parent.with_suffix(".jsonl"))
    began = parse_iso_ms(str(lead.get("at", ""))) or 0
    entry: dict[str, Any] = {
        "agentId": agent_id(LEAD, name),
        "name": LEAD,
        "agentType": LEAD,
        "model": str(lead.get("model", "")),
        "joinedAt": began,
        "tmuxPaneId": "",
        "cwd": str(lead.get("cwd", "")),
        "subscriptions": [],
    }
    facts: dict[str, Any] = {"name": name, "createdAt": began, "leadAgentId": agent_id(LEAD, name), "members": [entry]}
    return {**facts, **file.roster, "leadSessionId": file.lead.session}


def _team_name(file: TeamFile, headers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the team's name: the recorded one, else that of the members' ids; empty when neither is known."""
    if isinstance(name := file.roster.get("name"), str):
        return name
    ids = (str(header.get("agent_id", "")) for header in headers.values())
    return next((team for id in ids if (team := id.partition("@")[2])), "")


def _rebuild_entry(
    home: Home, directory: str, key: str, incarnation: Incarnation, header: Mapping[str, Any], team: str
) -> RosterMember:
    name = str(incarnation.entry.get("name") or header.get("member") or key)
    place = incarnation.place or {}
    member = parse_member(
        {
            "agentId": agent_id(name, team),
            "name": name,
            "model": str(header.get("model", "")),
            "planModeRequired": False,
            "joinedAt": parse_iso_ms(str(header.get("at", ""))) or 0,
            "cwd": str(header.get("cwd", "")),
            "tmuxPaneId": str(place.get("id", IN_PROCESS)),
            "backendType": str(place.get("kind", IN_PROCESS)),
            **incarnation.entry,
        }
    )
    first = (entry.text for entry in all_mail(home, directory, name) if entry.msg_id == incarnation.first)
    return replace(member, prompt=next(first, ""), mode=incarnation.mode or None)


def read_transcript_header(transcript: Path) -> Mapping[str, Any]:
    """Return the first line of a transcript; empty when it is missing or damaged."""
    with suppress(StorageError, OSError):
        return read_header(transcript) or {}
    return {}


def all_mail(home: Home, directory: str, name: str) -> Iterator[InboxEntry]:
    """Return the entries of a member's inbox and of its archive; unreadable ones are left out."""
    with suppress(StorageError, OSError):
        yield from read_entries(home.inbox(directory, name))
    with suppress(StorageError, OSError, ValueError, TypeError, AttributeError):
        for line in read_lines(home.inbox_archive(directory, name)):
            yield parse_entry(json.loads(line))


MAX_LISTED = 30
"""Members that one note lists; ListAgents shows the others."""


_MAX_JOB_CHARS = 80


class KnownRoster(Struct):
    """The roster as one teammate knows it: the `names` of its members, None before the first note."""

    names: tuple[str, ...] | None = None
    mark: object = field(default=None)

    async def describe_changes(self, roster: Roster, reader: str) -> str:
        """Return what changed since the last note, empty when nothing did. Costs one stat when the file is the same."""
        mark = roster.document.mark()
        if mark is not None and mark == self.mark:
            return ""
        config = await roster.read()
        self.mark = mark
        known, self.names = self.names, tuple([member.name for member in config.members])
        if known is None:
            return _describe_roster(config, reader)
        before = {name.lower() for name in known}
        now = {name.lower() for name in self.names}
        joined = [member for member in config.members if member.name.lower() not in before]
        left = sorted(before - now)
        lines = _list_members("Joined the team:", joined)
        return "\n".join([*lines, f"Left the team: {', '.join(left)}."] if left else lines)


def _describe_roster(config: TeamConfig, reader: str) -> str:
    others = [m for m in config.teammates if m.name.lower() != reader.lower()]
    if not others:
        return f"You and the lead ({LEAD_ALIAS}) are the whole team now."
    return "\n".join(_list_members(f"In the team now, beside you and the lead ({LEAD_ALIAS}):", others))


def _list_members(title: str, members: list[RosterMember]) -> list[str]:
    if not members:
        return []
    more = len(members) - MAX_LISTED
    lines = [title, *(_describe_member(member) for member in members[:MAX_LISTED])]
    return [*lines, f"- and {more} more; ListAgents shows all"] if more > 0 else lines


def _describe_member(member: RosterMember) -> str:
    job = " ".join((member.prompt or "").split())
    short = job if len(job) <= _MAX_JOB_CHARS else job[: _MAX_JOB_CHARS - 1].rsplit(" ", 1)[0] + "…"
    return escape_tags(f"- {member.name} ({member.agent_type})" + (f": {short}" if short else ""))
