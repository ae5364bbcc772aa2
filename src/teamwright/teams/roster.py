"""The roster of one team: config.json, changed under its lock and renamed into place.

Depends on `storage` and the team's other files. Other products rewrite the file without a lock: an empty or truncated
file is read again, and restored in the lead's process. The caller knows which members are alive.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError, UnknownMember
from teamwright.protocol.ids import COLORS, LEAD_ALIAS, agent_id, inbox_stem, member_name
from teamwright.protocol.indented_json import IndentedJson
from teamwright.protocol.message_xml import escape_tags
from teamwright.protocol.roster import RosterMember, TeamConfig, parse_config
from teamwright.protocol.unknown_names import unknown_member
from teamwright.storage.atomic import keep_damaged_copy, storage_error, write_atomic, write_new
from teamwright.storage.file_lock import lock_for
from teamwright.storage.file_mark import file_mark
from teamwright.storage.paths import Home, make_private
from teamwright.teams.roster_rebuild import rebuilt_roster
from teamwright.teams.team_file import TeamFile, is_lead_alive, read_team_file

MAX_LISTED = 30
"""Members that one note lists; ListAgents shows the others."""

_MAX_JOB_CHARS = 80


class KnownRoster(Struct):
    """The roster as one teammate knows it: the `names` of its members, None before the first note."""

    names: tuple[str, ...] | None = None
    mark: object = field(default=None)

    async def describe_changes(self, roster: Roster, reader: str) -> str:
        """Return what changed since the last note, empty when nothing did. Costs one stat when the file is the same."""
        mark = file_mark(roster.home.shared, roster.path)
        if mark == self.mark:
            return ""
        config = await roster.read()
        self.mark = mark
        known, self.names = self.names, tuple([member.name for member in config.members])
        if known is None:
            return _describe_roster(config, reader)
        before, now = {name.lower() for name in known}, {name.lower() for name in self.names}
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


class Roster:
    """The members of the team in one directory. `fsync`: writes survive power loss.

    `on_restored` is given in the lead's process, which restores a file that stays damaged. It receives the path, the
    copy of the damaged bytes, and the source of the restored ones.
    """

    def __init__(
        self,
        home: Home,
        directory: str,
        *,
        fsync: bool = False,
        on_restored: Callable[[Path, Path, str], None] | None = None,
    ) -> None:
        self.home = home
        self.directory = directory
        self.path = home.config(directory)
        self._fsync = fsync
        self._on_restored = on_restored
        self._cached: _CachedRoster | None = None
        self._encoder = IndentedJson()

    # ── read ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def read(self, *, patience_s: float | None = None) -> TeamConfig:
        """Return the roster as it is on disk.

        Raises TeamwrightError (`unknown-team`) when there is no file, StorageError (`damaged-file`) when it stays
        unreadable for `patience_s`: by default 0.3 s, 1 s before the lead's process restores the file, and 3 s in other
        processes while a lead lives.
        """
        return await self._retry_while_damaged(self._read_once, patience_s)

    async def find(self, name: str) -> RosterMember:
        """Return the member of that name, in any case. Raises UnknownMember naming all members and the nearest."""
        config = await self.read()
        member = config.find(name)
        if member is None:
            raise _unknown_member_error(config, name)
        return member

    # ── change ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, config: TeamConfig) -> bool:
        """Write the first roster of a team. False, without a change, when there is one. Raises StorageError."""
        try:
            make_private(self.path.parent)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        return write_new(self.path, config.encode())

    async def join(
        self, member: RosterMember, *, is_alive: Callable[[RosterMember], bool] = bool, dedupe: bool = False
    ) -> RosterMember:
        """Add a new member; returns its entry with the colour it got.

        `is_alive` tells whether the process behind an entry is alive (by default every entry counts): an entry that is
        not is replaced, keeping its place and colour. A live namesake is refused (TeamRefused), or with `dedupe`
        the newcomer becomes `name-2`. Raises InvalidName, StorageError.
        """
        wanted = member_name(member.name)
        joined = member

        def added(config: TeamConfig) -> TeamConfig:
            nonlocal joined
            name, namesake = wanted, _namesake(config, wanted)
            if namesake and is_alive(namesake):
                if not dedupe:
                    raise _name_taken_error(namesake)
                name, namesake = _free_name(config, wanted), None
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
        gone: RosterMember | None = None

        def removed(config: TeamConfig) -> TeamConfig:
            nonlocal gone
            wanted = name.lower()
            gone = next((m for m in config.members if wanted in {m.name.lower(), m.agent_id.lower()}), None)
            if gone is not None and gone.is_lead:
                raise TeamRefused(
                    "team-refused", "the lead cannot be taken out of its team", note="nothing was changed"
                )
            return config.without_member(name)

        await self.change(removed)
        return gone

    async def set_mode(self, name: str, mode: str) -> RosterMember:
        """Record a member's permission mode. Raises UnknownMember."""
        return await self._set(name, lambda member: replace(member, mode=mode))

    async def set_active(self, name: str, active: bool) -> RosterMember:
        """Record whether a member with a separate process is in a turn. Raises UnknownMember."""
        return await self._set(name, lambda member: replace(member, is_active=active))

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
        async with lock_for(self.path, self.home.guard(self.path)).hold() as held:
            try:
                self._read()
            except StorageError as problem:
                if problem.slug != "damaged-file":
                    raise
            else:
                return None
            held.check()
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
        source, config = "memory", self._cached.config if self._cached is not None else None
        if config is None and (file := self._team_file()) is not None:
            source, config = "team.json and the transcripts", rebuilt_roster(self.home, self.directory, file)
        copy = await self.restore(config) if config is not None else None
        if copy is not None:
            self._on_restored(self.path, copy, source)

    def _team_file(self) -> TeamFile | None:
        with suppress(StorageError):
            return read_team_file(self.home.team_file(self.directory))
        return None

    async def _change(self, change: Callable[[TeamConfig], TeamConfig]) -> TeamConfig:
        if not self.path.exists():  # locking a removed team must not create it again
            raise self._missing_error()
        async with lock_for(self.path, self.home.guard(self.path)).hold() as held:
            before = self._read()
            after = change(before)
            if after != before:
                held.check()
                raw = after.encode(self._encoder)
                write_atomic(self.path, raw, fsync=self._fsync)
                self._cached = _CachedRoster(None, raw, after)
        return after

    async def _set(self, name: str, change: Callable[[RosterMember], RosterMember]) -> RosterMember:
        def changed(config: TeamConfig) -> TeamConfig:
            member = config.find(name)
            if member is None:
                raise _unknown_member_error(config, name)
            return config.with_member(change(member))

        found = (await self.change(changed)).find(name)
        if found is None:
            raise UnknownMember("unknown-member", f"no member is named {name}")
        return found

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


def _namesake(config: TeamConfig, name: str) -> RosterMember | None:
    """Return the entry that would share the name or the inbox file, in any case."""
    stem = inbox_stem(name).lower()
    return next((m for m in config.members if inbox_stem(m.name).lower() == stem), None)


def _free_name(config: TeamConfig, name: str) -> str:
    number = 2
    while _namesake(config, made := f"{name[:60]}-{number}"):
        number += 1
    return member_name(made)


def _next_color(config: TeamConfig) -> str:
    """Return the colour after that of the last member; a failed spawn that was removed uses none up."""
    last = next((m.color for m in reversed(config.members) if m.color in COLORS and not m.is_lead), None)
    return COLORS[0] if last is None else COLORS[(COLORS.index(last) + 1) % len(COLORS)]


def _name_taken_error(member: RosterMember) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        f"{member.name} is already a live member of the team",
        do=[f"send {member.name} a message instead", f"replace it: stop {member.name}, then spawn it again"],
        note="nothing was started",
    )


def _unknown_member_error(config: TeamConfig, name: str) -> UnknownMember:
    names = [m.name for m in config.members]
    return unknown_member(name, names, f"team {config.name}", note="nothing was changed")
