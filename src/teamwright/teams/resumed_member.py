"""The parts of a resumed member that its roster entry and its incarnation record: the spec, the directory, the mode.

Other programs may write a roster, so that only facts of our own records count. Depends on the team and on worktrees.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.roster import RosterMember
from teamwright.team_records.incarnation import Incarnation
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.team import SessionTeam
from teamwright.worktrees.worktree_record import find_member_record


def with_own_directory(team: SessionTeam, member: RosterMember, incarnation: Incarnation) -> RosterMember:
    """Return the entry of a resumed member with the directory that was recorded for it.

    Other programs may write the roster: a worktree counts only when it was made for the member. Raises TeamRefused.
    """
    if not member.worktree_path:
        return replace(member, cwd=str(incarnation.entry.get("cwd") or team.cwd))
    names, tree = {team.name, team.session_list_name}, Path(member.worktree_path)
    record = find_member_record(team.home.worktrees, tree, names, member.name)
    if record is None:
        raise TeamRefused(
            "team-refused",
            f"the roster names a worktree that was not made for {member.name}: {member.worktree_path[:200]}",
            do=["teamwright worktrees"],
            note="it was not started there",
        )
    return replace(member, cwd=record.path)


def resumed_spec(member: RosterMember, incarnation: Incarnation) -> SpawnSpec:
    """Return the spec of a resumed member, from its files on disk."""
    return SpawnSpec(
        prompt=member.prompt or "",
        name=member.name,
        agent_type=member.agent_type,
        model=incarnation.model,
        effort=incarnation.effort,
        mode=incarnation_mode(member, incarnation),
        max_turns=incarnation.max_turns,
        budget=incarnation.budget,
        cwd=Path(member.cwd),
        worktree=Path(member.worktree_path) if member.worktree_path else None,
        bounds=incarnation.bounds,
        plan_mode_required=bool(member.plan_mode_required),
        call=incarnation.call,
    )


def incarnation_mode(member: RosterMember, incarnation: Incarnation) -> str | None:
    """Return the incarnation's mode, and not the roster's, which any program may change."""
    if incarnation.mode is not None:
        return incarnation.mode or None
    return member.mode if member.mode is None or member.mode in list(Mode) else str(Mode.DEFAULT)
