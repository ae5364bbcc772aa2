"""Which life a process of a member is: a new one, or the one that a process before it began and did not end.

A lead that starts the name again has put it on the roster anew: that is a new life. Everything else goes on. Knows
records; starts nothing.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.app.making.maker import Maker
from teamwright.app.members.guest.finding import Found
from teamwright.protocol.argv import MemberFlags
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import agent_id
from teamwright.protocol.roster import Member
from teamwright.protocol.values import dataclass
from teamwright.teams.guest.record import GuestRecord, read_record
from teamwright.teams.incarnation import Life
from teamwright.teams.member.room import room_of
from teamwright.teams.spec import SpawnSpec

GENERAL = "general-purpose"


@dataclass(frozen=True, slots=True)
class Lived:
    """Where this life's conversation lies, and what an earlier process of it kept; None: it begins now."""

    transcript: Path
    record: GuestRecord | None

    @property
    def room(self) -> Path:
        """The directory of its own files."""
        return room_of(self.transcript)


def look_up(found: Found, cwd: Path) -> Lived:
    """The last life of the name in that session, unless it is over; else a place for a new one. Raises StorageError."""
    number, last = 1, None
    while True:
        stem = found.name if number == 1 else f"{found.name}-{number}"
        path = found.home.agent_transcript(cwd, found.session, stem)
        record = read_record(room_of(path))
        if record is None and not path.exists():
            break
        if record is not None and record.entry.name == found.name:
            last = Lived(path, record)
        number += 1
    if last is not None and last.record is not None and _goes_on(last.record, found):
        return last
    return Lived(path, None)


def _goes_on(record: GuestRecord, found: Found) -> bool:
    if record.over or not record.of_team(found.directory, found.config.created_at):
        return False
    entry = found.config.find(found.name)
    return entry is None or entry.joined_at == record.entry.joined_at


def own_entry(found: Found, flags: MemberFlags, model: str, cwd: Path) -> Member:
    """The place on the roster of a member that its lead did not put there. No pane: nobody but its lead knows one."""
    return Member(
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


def new_life(found: Found, flags: MemberFlags, maker: Maker, transcript: Path) -> tuple[SpawnSpec, Life, list[str]]:
    """What a new member is made of, the life that begins with it, and lines about what is not as it was asked.

    A kind of agent that nobody here knows is the general one, as with the other product. Raises UsageError.
    """
    told: list[str] = []
    spec = SpawnSpec(prompt="", name=found.name, agent_type=flags.agent_type or GENERAL, plan_mode_required=found.plans)
    try:
        spec = maker.resolved(spec)
    except UsageError as problem:
        if spec.agent_type == GENERAL:
            raise
        told.append(f"{problem.what}: {found.name} is of the kind {GENERAL}")
        spec = maker.resolved(SpawnSpec(prompt="", name=found.name, agent_type=GENERAL, plan_mode_required=found.plans))
    life = Life(
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
    return spec, life, told
