"""Starting another program as a member: place, handshake, or an error with its last words and nothing left behind.

It has answered once it has read its first prompt, or says that it is in a turn. Going on with one after its lead was
gone: a program that still runs is followed again; one that has ended took its conversation along. Knows places and the
team; does not know which program it is, nor what it is started with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TypeAlias

from teamwright.mail.inbox import peek
from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import ms_of
from teamwright.protocol.errors import CannotStart, TeamRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import ShutdownApproved, parse_protocol
from teamwright.protocol.roster import Member
from teamwright.teams.ending import left
from teamwright.teams.incarnation import Life
from teamwright.teams.lifecycle import GONE, Event
from teamwright.teams.mailing.notes import leave_note
from teamwright.teams.member.elsewhere import Elsewhere
from teamwright.teams.member.mate import Mate
from teamwright.teams.own_entries import change_entry, settled_at
from teamwright.teams.places.place import Place, Spot
from teamwright.teams.places.settling import set_within
from teamwright.teams.plans.beyond import mode_beyond
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.strangers.ports import Commanding
from teamwright.teams.strangers.signs import InboxSigns
from teamwright.teams.strangers.stranger import Stranger
from teamwright.teams.team import Team
from teamwright.teams.team_file import keep_place

_LOOK_S = 0.5
"""How often it is asked whether what was started still runs, until it has answered."""

Watch: TypeAlias = Callable[[Path, Callable[[], None]], Callable[[], None]]
"""Calls back when a file changes; returns how to stop."""


class Strangers:
    """Members that other programs run (see teams.team.Elsewhere)."""

    def __init__(self, team: Team, commands: Commanding, watch: Watch) -> None:
        self.team = team
        self.commands = commands
        self._watch = watch
        self._places: dict[str, Place] = {}
        self._telling: set[asyncio.Task[None]] = set()

    async def choose(self, spec: SpawnSpec) -> str:
        """See teams.team.Elsewhere."""
        kind, place = await self.commands.choose(spec)
        self._places[kind] = place
        return kind

    async def start(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """See teams.team.Elsewhere."""
        team, start = self.team, self.commands.start(member, life)
        stranger = self._stranger(member, life, self._places[member.backend_type or ""])
        stranger.said_mode = start.mode
        if team.closing:
            raise TeamRefused("team-refused", "the session is ending", note="nothing was started")
        self._take_in(stranger, member, undo)
        spot = stranger.spot = await stranger.place.open(start.launch)
        await keep_place(team.home, team.directory, member.name, spot.to_json())
        await change_entry(team, member.name, settled_at(spot))
        if spot.note:
            team.emit(Notice(member=member.name, text=spot.note))
        await self._until_begun(stranger, start.within_s)
        self._let_live(stranger)
        stranger.begin()
        return stranger

    async def go_on(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """See teams.team.Elsewhere."""
        team = self.team
        spot = Spot.from_json(life.place) if life.place is not None else None
        if spot is None:
            raise CannotStart("backend", "its start had come no further than its name")
        place = await self.commands.place_of(spot)
        if place is None or not await place.alive(spot):
            await self.clear(life)
            agreed = " after it agreed to stop" if self._agreed(member.name, member.joined_at) else ""
            raise CannotStart("backend", f"its program has ended{agreed}, and its conversation with it")
        stranger = self._stranger(member, life, place)
        given = mode_beyond(team.lead_policy, Mode(life.mode) if life.mode else None)
        stranger.spot, stranger.said_mode = spot, str(Mode.PLAN if member.plan_mode_required else given)
        self._take_in(stranger, member, undo)
        self._let_live(stranger)
        stranger.begin(member.is_active)
        return stranger

    async def clear(self, life: Life) -> None:
        """See teams.team.Elsewhere."""
        spot = Spot.from_json(life.place) if life.place is not None else None
        place = await self.commands.place_of(spot) if spot is not None else None
        if spot is not None and place is not None:
            await place.close(spot)

    def _agreed(self, name: str, since_ms: int) -> bool:
        """Whether it told the lead that it ends, while nobody led."""
        with suppress(TeamwrightError):
            for entry in peek(self.team.inbox(LEAD).path):
                mine = entry.sender.lower() == name.lower() and (ms_of(entry.timestamp or "") or 0) >= since_ms
                if mine and isinstance(parse_protocol(entry.text), ShutdownApproved):
                    return True
        return False

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _stranger(self, member: Member, life: Life, place: Place) -> Stranger:
        team = self.team

        async def over(name: str, cause: str) -> None:
            await left(team, name, cause, None)  # what it agreed to it said itself

        def tell(text: str, summary: str) -> None:
            task = asyncio.create_task(self._note(member.name, text, summary), name=f"a note to {member.name}")
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

        return Stranger(
            emit=team.emit,
            incarnation=life.incarnation,
            who=member.name,
            transcript=Path(life.transcript),
            signs=InboxSigns(team.home.inbox(team.directory, member.name)),
            first=life.first,
            place=place,
            left=over,
            hear=lambda: team.inbox(LEAD).unread(),
            tell=tell,
            color=member.color,
            model=member.model or "",
            agent_type=member.agent_type,
            changed=team.changed,
            call=life.call,
        )

    async def _note(self, name: str, text: str, summary: str) -> None:
        try:
            await leave_note(self.team, "system", name, text, summary)
        except TeamwrightError as problem:
            warning = f"a note did not reach {name}: {problem.what}"
            self.team.emit(Notice(member=name, text=warning, level="warning"))

    def _take_in(self, stranger: Stranger, member: Member, undo: AsyncExitStack) -> None:
        """It is a member from now on, and followed; `undo` takes it back."""
        team = self.team
        stranger.signs.look()  # its first prompt lies there
        unwatch = self._watch(stranger.signs.path, stranger.look)

        def unfollow() -> None:
            unwatch()
            if team.outside.followed.get(stranger.name.lower()) is stranger:
                team.outside.part(stranger.name)

        stranger.unfollow = unfollow
        undo.push_async_callback(self._take_back, stranger)
        team.members[member.name] = stranger
        team.outside.entries[member.name] = member
        team.outside.meet(member.name, stranger)

    def _let_live(self, stranger: Stranger) -> None:
        stranger.task = asyncio.create_task(stranger.live(), name=f"program of {stranger.name}")
        stranger.task.add_done_callback(lambda _: self._life_over(stranger))

    def _life_over(self, stranger: Stranger) -> None:
        stranger.unfollow()
        self.team.changed.set()

    async def _until_begun(self, stranger: Stranger, within_s: float) -> None:
        """Until it has answered. Raises CannotStart with its last words."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not await set_within(stranger.begun, min(_LOOK_S, max(0.0, deadline - loop.time()))):
            stranger.look()
            if loop.time() >= deadline:
                raise await self._not_started(stranger, f"did not read its first prompt within {within_s:g} s")
            self._require_wanted(stranger)
            if stranger.spot is None or not await stranger.place.alive(stranger.spot):
                raise await self._not_started(stranger, "ended before it read its first prompt")
        self._require_wanted(stranger)

    def _require_wanted(self, stranger: Stranger) -> None:
        if stranger.state in GONE or self.team.closing:
            raise TeamRefused("team-refused", f"{stranger.name} was ended while it started", note="nothing was started")

    async def _not_started(self, stranger: Stranger, how: str) -> CannotStart:
        words = await stranger.place.last_words(stranger.spot) if stranger.spot is not None else ""
        return CannotStart(
            "backend",
            f"the program of {stranger.name} {how}",
            looked_at=[
                ("state root", str(self.team.home.shared)),
                *(("it said", line) for line in words.strip().splitlines()[-8:]),
            ],
            do=["start it once by hand in this directory: it may ask something first", "see docs/strangers.md"],
            note="nothing was started",
        )

    async def _take_back(self, stranger: Stranger) -> None:
        """A member whose start failed never was."""
        team = self.team
        stranger.leaving = "it could not be started"
        if stranger.state not in GONE:
            stranger.move(Event.BROKE, stranger.leaving)
        if trouble := await stranger.wind_up(team.settings.cancel_grace_s):
            team.emit(Notice(member=stranger.name, text=trouble, level="warning"))
        if team.members.get(stranger.name) is stranger:
            del team.members[stranger.name]
        team.outside.entries.pop(stranger.name, None)


class Beside:
    """Members in processes of ours, and those that other programs run: each started by its own kind."""

    def __init__(self, ours: Elsewhere, strangers: Strangers) -> None:
        self.ours = ours
        self._strangers = strangers

    async def choose(self, spec: SpawnSpec) -> str:
        """See teams.team.Elsewhere."""
        return await (self._strangers if spec.command else self.ours).choose(spec)

    @property
    def why(self) -> str:
        """See teams.team.Elsewhere."""
        return self.ours.why

    async def start(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """See teams.team.Elsewhere."""
        return await (self._strangers if life.command else self.ours).start(member, life, undo)

    async def go_on(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """See teams.team.Elsewhere."""
        return await (self._strangers if life.command else self.ours).go_on(member, life, undo)

    async def clear(self, life: Life) -> None:
        """See teams.team.Elsewhere."""
        await (self._strangers if life.command else self.ours).clear(life)
