"""What a member's own process is started with, by the session that leads (the port of `teams.processes`).

Knows options, settings and where members may live; does not know how a place is opened.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from teamwright.app.ground import Ground, deserted
from teamwright.app.members.launching import flags_of, launch_of
from teamwright.app.members.places import Places
from teamwright.app.members.spawn_file import FILE, VARIABLE, SpawnFile, discard, options_to_json, wire_token
from teamwright.app.requests.making import ask_timeout
from teamwright.permissions.verdict import Mode
from teamwright.protocol.argv import MemberFlags, to_argv
from teamwright.protocol.roster import Member
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import read_backward
from teamwright.storage.log_reader import event_of, last_number
from teamwright.teams.incarnation import Life
from teamwright.teams.member.room import room_of
from teamwright.teams.places.choosing import ASKED_FOR
from teamwright.teams.places.place import Launch, Place, Spot
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team

PROGRAM = (sys.executable, "-P", "-m", "teamwright")
"""This very installation. -P: a directory that somebody works in is no place to import from."""


@dataclass(slots=True)
class Lodging:
    """Where the members of one session live. `wire` is where their processes call."""

    ground: Ground
    team: Team
    places: Places
    wire: Path

    async def choose(self, spec: SpawnSpec) -> tuple[str, Place] | None:
        """See Housing."""
        chosen = await self.places.choose(spec.backend)
        if chosen is not None:
            options_to_json(self.ground.options)  # what does not travel is said before anything is made
        return chosen

    @property
    def why(self) -> str:
        """See Housing."""
        return "" if self.places.why == ASKED_FOR else self.places.why

    async def place_of(self, spot: Spot) -> Place | None:
        """See Housing."""
        return await self.places.place_of(spot)

    def token_of(self, life: Life) -> str:
        """See Housing."""
        return wire_token(room_of(Path(life.transcript)), str(self.wire))

    def discard(self, room: Path) -> None:
        """See Housing."""
        discard(room)

    def heard_of(self, name: str, life: Life) -> int:
        """See Housing."""
        room = room_of(Path(life.transcript))
        if room.parent.parent != self.ground.directory:
            return last_number(room / "events.jsonl")  # what another session led is no event of this one
        origin = f"{name}#{life.incarnation}:"
        mark = b'"origin":"%s' % origin.encode()
        for line in read_backward(self.ground.directory / "events.jsonl"):
            event = event_of(line) if mark in line else None
            if event is not None and event.origin.startswith(origin):
                return int(event.origin.removeprefix(origin))
        return 0

    def launch(self, member: Member, life: Life, token: str, *, resumed: bool) -> Launch:
        """See Housing."""
        ground, team = self.ground, self.team
        path = room_of(Path(life.transcript)) / FILE
        SpawnFile(
            home=str(ground.home.shared),
            session=ground.id,
            team=team.name,
            directory=team.directory,
            member=member.name,
            incarnation=life.incarnation,
            wire=str(self.wire),
            token=token,
            resumed=resumed,
            model=team.lead_model,
            grace_s=self.places.grace_s,
            options=options_to_json(ground.options) | self._resolved(),
        ).write(path)
        argv = (*PROGRAM, *to_argv(self._flags(member, life)))
        return launch_of(member, team, ground.id, argv, {**ground.env, VARIABLE: str(path)})

    def _resolved(self) -> dict[str, object]:
        """What follows from this process's options and settings, and would be something else in another's."""
        ground, waits = self.ground, ask_timeout(self.ground)
        asked = {} if waits is None else {"ask_timeout_s": waits}
        shared = self.team.outside.shared_list  # a resume takes the list from the team, without a flag
        listed = {"task_list": shared} if shared else {}
        return {"cwd": str(ground.cwd), "ask": "deny" if deserted(ground) else "wait", **asked, **listed}

    def _flags(self, member: Member, life: Life) -> MemberFlags:
        """Who it is, and what else the flags can say of it: as observed, the lead's mode where it has none."""
        lead = self.team.lead_policy.lasting_mode
        mode = life.mode or (str(lead) if lead in {Mode.ACCEPT_EDITS, Mode.BYPASS} else "")
        return replace(
            flags_of(member, self.team, self.ground.id, "" if mode == Mode.PLAN else mode),
            model=member.model or "",
            allowed_tools=self.ground.options.allowed_tools,
            disallowed_tools=self.ground.options.disallowed_tools,
        )
