"""The flags and the launch that all members in backends have in common, for every program.

Depends on the roster entry and the team.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from teamwright.permissions.verdict import Mode
from teamwright.protocol.ids import SessionId
from teamwright.protocol.member_flags import MemberFlags
from teamwright.protocol.roster import RosterMember
from teamwright.teams.backends.backend import Launch
from teamwright.teams.team import SessionTeam

_USUAL_COLOR = "blue"


def member_flags(member: RosterMember, team: SessionTeam, session: SessionId, mode: str) -> MemberFlags:
    """Return the flags that identify a member. `mode` is empty when the program begins in that mode.

    A member that must plan begins in plan mode in any case; bypassPermissions has a separate flag.
    """
    plans = bool(member.plan_mode_required)
    bypass = mode == Mode.BYPASS and not plans
    return MemberFlags(
        agent_id=member.agent_id,
        agent_name=member.name,
        team_name=team.name,
        agent_color=member.color or "",
        parent_session_id=session,
        plan_mode_required=plans,
        agent_type=member.agent_type,
        dangerously_skip_permissions=bypass,
        permission_mode="" if bypass or plans else mode,
    )


def make_launch(
    member: RosterMember, team: SessionTeam, session: SessionId, argv: tuple[str, ...], env: Mapping[str, str]
) -> Launch:
    """Return the launch of the member for its backend."""
    return Launch(
        name=member.name,
        team=team.directory,
        session=session,
        argv=argv,
        env=env,
        cwd=Path(member.cwd),
        color=member.color or _USUAL_COLOR,
    )
