"""The roster of a team: who is in it, and the rules for names and colours.

Depends on the port of documents. The caller knows which members are alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.ids import COLORS, LEAD_ALIAS, agent_id, inbox_stem, member_name
from teamwright.protocol.roster import RosterMember, TeamConfig
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.team_records.shared_document import Document

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


OnRestored: TypeAlias = Callable[[str, str, str], None]
"""Receives the places of the roster and of the copy of the damaged one, and the source of the restored one."""


class RosterDocument(Document[TeamConfig], Protocol):
    """The roster as a document. A missing one raises TeamwrightError (`unknown-team`)."""

    @property
    def exists(self) -> bool:
        """True when there is a roster."""
        ...


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
            name, namesake = base_name, _namesake(config, base_name)
            if namesake and is_alive(namesake):
                if not dedupe:
                    raise _name_taken_error(namesake)
                name, namesake = _free_name(config, base_name), None
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
        """Change the roster; see Document. Raises what `read` raises, LockTimeout, LockLost."""
        return await self.document.change(change)

    async def _set(self, name: str, change: Callable[[RosterMember], RosterMember]) -> RosterMember:
        def changed(config: TeamConfig) -> TeamConfig:
            return config.with_member(change(config.get(name)))

        return (await self.change(changed)).get(name)


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


def _name_taken_error(member: RosterMember) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        f"{member.name} is already a live member of the team",
        do=[f"send {member.name} a message instead", f"replace it: stop {member.name}, then spawn it again"],
        note="nothing was started",
    )
