"""The incarnation of a member process: a new one, or the unfinished one of an earlier process.

A lead that starts the name again replaces its roster entry, which begins a new incarnation. Otherwise the earlier one
continues. Depends on records.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import agent_id
from teamwright.protocol.member_flags import MemberFlags
from teamwright.protocol.roster import RosterMember
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.session.member_process.external_lead.team_search import ExternalTeam
from teamwright.teams.external.membership import MembershipRecord, read_record
from teamwright.teams.incarnation import Incarnation, process_directory
from teamwright.teams.spawn_spec import SpawnSpec

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
    number, last = 1, None
    while True:
        stem = found.name if number == 1 else f"{found.name}-{number}"
        path = found.home.agent_transcript(cwd, found.session, stem)
        record = read_record(process_directory(path))
        if record is None and not path.exists():
            break
        if record is not None and record.entry.name == found.name:
            last = MemberIncarnation(path, record)
        number += 1
    if last is not None and last.record is not None and _goes_on(last.record, found):
        return last
    return MemberIncarnation(path, None)


def _goes_on(record: MembershipRecord, found: ExternalTeam) -> bool:
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
    told: list[str] = []
    spec = SpawnSpec(prompt="", name=found.name, agent_type=flags.agent_type or GENERAL, plan_mode_required=found.plans)
    try:
        spec = agent_factory.resolve(spec)
    except UsageError as problem:
        if spec.agent_type == GENERAL:
            raise
        told.append(f"{problem.what}: {found.name} is of the kind {GENERAL}")
        spec = agent_factory.resolve(
            SpawnSpec(prompt="", name=found.name, agent_type=GENERAL, plan_mode_required=found.plans)
        )
    life = Incarnation(
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
