"""Starting a member as a process: place, handshake, or an error with its last words and nothing left behind.

Going on with one after its lead was gone: a process that still lives calls again, any other is started anew. Knows
places, the exchange and the team; does not know what a member's process is made of.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

from teamwright.protocol.errors import CannotStart, TeamRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.roster import Member
from teamwright.storage.lease import lease_held
from teamwright.storage.processes.leftovers import end_leftovers
from teamwright.teams.ending import left
from teamwright.teams.incarnation import Life
from teamwright.teams.lifecycle import GONE, Event
from teamwright.teams.mailing.ping_pong_guard import held_by
from teamwright.teams.mailing.returning import return_late_mail
from teamwright.teams.member.elsewhere import IN_PROCESS
from teamwright.teams.member.mate import Mate
from teamwright.teams.member.room import LEASE, room_of
from teamwright.teams.own_entries import change_entry, settled_at
from teamwright.teams.places.place import Place, Spot
from teamwright.teams.places.processes import family_of
from teamwright.teams.places.settling import set_within
from teamwright.teams.processes.exchange import Exchange
from teamwright.teams.processes.ports import Housing
from teamwright.teams.processes.process import Process
from teamwright.teams.spawning import mode_of, start
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team
from teamwright.teams.team_file import keep_place

READY_S = 30.0
"""How long a process may take to be ready."""

AGAIN_S = 10.0
"""How long a process that outlived its lead may take to call the next one."""

_LOOK_S = 0.5
"""How often it is asked whether what was started still runs, until it has called."""

_END_S = 2.0
"""How long a process may take to end after SIGTERM."""


class Elsewhere:
    """Members in processes of their own (see teams.team.Elsewhere)."""

    def __init__(self, team: Team, housing: Housing, exchange: Exchange) -> None:
        self.team = team
        self.housing = housing
        self.exchange = exchange
        self._places: dict[str, Place] = {}

    async def choose(self, spec: SpawnSpec) -> str:
        """See teams.team.Elsewhere."""
        chosen = await self.housing.choose(spec)
        if chosen is None:
            return IN_PROCESS
        kind, place = chosen
        self._places[kind] = place
        return kind

    @property
    def why(self) -> str:
        """See teams.team.Elsewhere."""
        return self.housing.why

    async def start(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """See teams.team.Elsewhere."""
        place = self._places[member.backend_type or ""]
        process = self._process(member, life, place, secrets.token_hex(16))
        await self._start(process, member, life, undo, resumed=False)
        return process

    async def go_on(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """See teams.team.Elsewhere."""
        spot, place = await self._where(life)
        if spot is not None and place is not None:
            process = self._process(member, life, place, self.housing.token_of(life))
            process.spot = spot
            if await self._called_again(process, life):
                self._take_in(process, member, undo)
                process.begun = True
                await _take_up_plan(process)
                return process
        await self.clear(life)
        kind = await self._place_now(member)
        if kind == IN_PROCESS:
            return await self._at_home(member, life, undo)
        member = replace(member, backend_type=kind, pane_id="")
        process = self._process(member, life, self._places[kind], secrets.token_hex(16))
        process.heard = self.housing.heard_of(process.name, life)
        await self._start(process, member, life, undo, resumed=True)
        return process

    async def clear(self, life: Life) -> None:
        """See teams.team.Elsewhere."""
        spot, place = await self._where(life)
        if spot is not None and place is not None:
            await place.close(spot)
        room = room_of(Path(life.transcript))
        if spot is not None and lease_held(room / LEASE) and (family := family_of(spot)) is not None:
            await family.end(_END_S)  # its place is gone, or does not see it, and it lives
        await asyncio.to_thread(end_leftovers, room)
        self.housing.discard(room)
        self.exchange.help.over("", room)

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _where(self, life: Life) -> tuple[Spot | None, Place | None]:
        """Where its process was started, and the place, if there is one of that kind here."""
        spot = Spot.from_json(life.place) if life.place is not None else None
        return spot, await self.housing.place_of(spot) if spot is not None else None

    async def _place_now(self, member: Member) -> str:
        """The backend for a member that goes on: its own, else what is to be had here; nobody is lost for want of one.

        What is different is told.
        """
        was = member.backend_type or ""
        try:
            return await self.choose(SpawnSpec(prompt="", name=member.name, backend=was))
        except TeamwrightError as problem:
            why = problem.what
        try:
            kind = await self.choose(SpawnSpec(prompt="", name=member.name))
        except TeamwrightError:
            kind = IN_PROCESS
        where = "in the lead's process" if kind == IN_PROCESS else f"in {kind}"
        text = f"{member.name} ran in {was} and continues {where}: {why}"
        self.team.emit(Notice(member=member.name, text=text, level="warning"))
        return kind

    async def _at_home(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """A member that had a process of its own goes on in this one."""
        team, home = self.team, Spot(IN_PROCESS, IN_PROCESS)
        await keep_place(team.home, team.directory, member.name, None)
        await change_entry(team, member.name, settled_at(home))
        member = replace(member, backend_type=IN_PROCESS, pane_id=IN_PROCESS)
        return await start(team, member, replace(life, place=None), undo, resumed=True)

    def _process(self, member: Member, life: Life, place: Place, token: str) -> Process:
        team = self.team

        async def over(name: str, cause: str, agreed: str | None) -> None:
            await left(team, name, cause, agreed)
            await return_late_mail(team)  # what it wrote last to somebody who was gone, before it could learn of that

        return Process(
            emit=team.emit,
            incarnation=life.incarnation,
            who=member.name,
            transcript=Path(life.transcript),
            token=token,
            bell=team.home.bell(team.directory, member.name),
            place=place,
            left=over,
            held_senders=lambda name: held_by(team, name),
            lead_mode=lambda: str(team.lead_policy.lasting_mode),
            color=member.color,
            model=member.model or "",
            agent_type=member.agent_type,
            changed=team.changed,
            call=life.call,
            said_mode=mode_of(member, life) or "",
        )

    async def _start(
        self, process: Process, member: Member, life: Life, undo: AsyncExitStack, *, resumed: bool
    ) -> None:
        team = self.team
        await self.exchange.open()
        undo.callback(self.housing.discard, room_of(process.transcript))
        launch = self.housing.launch(member, life, process.token, resumed=resumed)
        if team.closing:
            raise TeamRefused("team-refused", "the session is ending", note="nothing was started")
        self._take_in(process, member, undo)
        spot = process.spot = await process.place.open(launch)
        await keep_place(team.home, team.directory, member.name, spot.to_json())
        await change_entry(team, member.name, settled_at(spot))
        if spot.note:
            team.emit(Notice(member=member.name, text=spot.note))
        await self._until_ready(process)
        process.begun = True
        if process.state in GONE and not process.turns and not resumed:
            raise TeamRefused("team-refused", f"{member.name} was ended while it started", note="nothing was started")

    def _take_in(self, process: Process, member: Member, undo: AsyncExitStack) -> None:
        """It is a member from now on; `undo` takes it back."""
        team = self.team
        self.exchange.expect(process)
        undo.push_async_callback(self._take_back, process)
        team.members[member.name] = process
        team.outside.entries[member.name] = member
        team.outside.processes.add(member.name.lower())
        process.task = asyncio.create_task(process.live(), name=f"process of {member.name}")
        process.task.add_done_callback(lambda _: self._life_over(process))
        team.changed.set()

    def _life_over(self, process: Process) -> None:
        self.exchange.forget(process)
        self.exchange.help.over(process.name, room_of(process.transcript))
        self.team.changed.set()

    async def _until_ready(self, process: Process) -> None:
        """Until it can be written to. Raises what it says itself, or CannotStart with its last words."""
        try:
            async with asyncio.timeout(READY_S):
                while not await set_within(process.ready, _LOOK_S):
                    await self._require_alive(process)
        except TimeoutError:
            raise await self._not_started(process, f"was not ready within {READY_S:.0f} s") from None
        if process.trouble is not None:
            raise process.trouble
        if process.wire is None:
            raise await self._not_started(process, "ended while it started")

    async def _require_alive(self, process: Process) -> None:
        if process.spot is None or process.attached.is_set() or await process.place.alive(process.spot):
            return
        if not process.attached.is_set():
            raise await self._not_started(process, "ended before it called")

    async def _not_started(self, process: Process, how: str) -> CannotStart:
        words = await process.place.last_words(process.spot) if process.spot is not None else ""
        return CannotStart(
            "backend",
            f"the process of {process.name} {how}",
            looked_at=[("it said", line) for line in words.strip().splitlines()[-8:]],
            note="nothing was started",
        )

    async def _called_again(self, process: Process, life: Life) -> bool:
        """Whether its process outlived the lead, and is back."""
        room = room_of(Path(life.transcript))
        if not process.token or not lease_held(room / LEASE):
            return False
        process.heard = self.housing.heard_of(process.name, life)
        self.exchange.expect(process)
        await self.exchange.open()
        if await set_within(process.attached, AGAIN_S):
            return True
        self.exchange.forget(process)
        return False

    async def _take_back(self, process: Process) -> None:
        """A member whose start failed never was."""
        process.leaving = "it could not be started"
        team = self.team
        trouble = await process.wind_up(team.settings.cancel_grace_s)
        if trouble:
            team.emit(Notice(member=process.name, text=trouble, level="warning"))
        process.over.set()
        if process.state not in GONE:
            process.move(Event.BROKE, process.leaving)
        if team.members.get(process.name) is process:
            del team.members[process.name]
        team.outside.entries.pop(process.name, None)


async def _take_up_plan(process: Process) -> None:
    """A plan that waited when its lead was killed waits for an answer here, or is told the one that it missed."""
    if process.plan.open:
        with suppress(TeamwrightError):  # it has ended meanwhile, which is seen to
            await process.perform("plan_answered")
