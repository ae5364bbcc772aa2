"""Changes of a running member's permission mode, effective from its next call.

The order is: the policy (so that agents it started follow at once), the roster, a message to the member that does not
wake it, the event. The lead's process writes the roster and team.json, for a member process too. Depends on the team.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.plan_mode import PlanExit, mode_notice
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.ids import LEAD, iso_time
from teamwright.protocol.mail import ModeChangeMessage as ModeMessage
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.mode_rank import MODE_RANK, ModeSet, limiting_mode
from teamwright.teams.outgoing_mail import find_recipient, send_protocol
from teamwright.teams.plan_approval import approve_by_mode_change
from teamwright.teams.spawn import is_written_by_lead, save_mode_everywhere
from teamwright.teams.team import SessionTeam


async def set_mode(team: SessionTeam, name: str, mode: Mode, by: str) -> ModeSet:
    """Change the mode of a member of this process from its next call on; an idle member is not woken.

    `by` is the author: `user`, or the lead, which may only make the mode stricter. No member exceeds the lead in any
    mode. Its edits need an answer again, even if a person accepted them in advance, whether or not the change succeeds.
    Raises UnknownMember naming the nearest, TeamRefused; then the mode is as before. StorageError and LockTimeout leave
    a stricter mode in force for this process.
    """
    lead = team.lead_policy
    teammate = await _find_teammate(team, name)
    teammate.edits_accepted_by = ""
    if isinstance(teammate, ProcessTeammateBase):
        return await _set_remote_mode(team, teammate, mode, by)
    policy = teammate.agent.policy
    before = policy.mode
    if mode is before:
        if mode is Mode.PLAN:
            enter_mode(
                teammate.agent, mode, by
            )  # it may have entered plan mode itself: then it can no longer leave alone
        return ModeSet(teammate.name, mode, before, limiting_mode(mode, lead))
    if by == LEAD:
        _require_stricter(teammate, mode, policy)
    wider = MODE_RANK.get(mode, MODE_RANK[lead.effective_mode]) > MODE_RANK[policy.effective_mode]
    enter_mode(teammate.agent, mode, by)
    try:
        if not is_written_by_lead(team):
            await save_mode_everywhere(team, teammate)
    except BaseException:
        if wider and policy.mode is mode:
            enter_mode(teammate.agent, before, by)
        raise
    await approve_by_mode_change(team, teammate)
    summary = mode_notice(mode).removesuffix(".")
    await send_protocol(
        team, by, teammate.name, ModeMessage(sender=by, mode=str(mode), timestamp=iso_time()), summary=summary[:200]
    )
    return ModeSet(teammate.name, mode, before, limiting_mode(mode, lead))


async def _set_remote_mode(team: SessionTeam, teammate: ProcessTeammateBase, mode: Mode, by: str) -> ModeSet:
    """Change the mode of a member process (see `set_mode`): that process applies it, and this one writes it."""

    async def perform(mode: Mode) -> ModeSet:
        reply = await teammate.perform("set_mode", mode=str(mode), by=by)
        held_by = Mode(reply["held_by"]) if reply["held_by"] else None
        return ModeSet(teammate.name, Mode(reply["mode"]), Mode(reply["before"]), held_by)

    result = await perform(mode)
    try:
        await save_mode_everywhere(team, teammate)
    except BaseException:
        lasting = team.lead_policy.effective_mode
        if MODE_RANK.get(mode, MODE_RANK[lasting]) > MODE_RANK.get(result.before, MODE_RANK[lasting]):
            await perform(result.before)
        raise
    return result


def enter_mode(agent: Agent, mode: Mode, by: str) -> None:
    """Put the agent into this mode from its next call on, and notify it. Raises StorageError."""
    plan = agent.plan
    if mode is Mode.PLAN and plan is not None:
        plan.enter(PlanExit.APPROVED, by)  # an agent that was put into plan mode cannot leave it alone
        return
    policy = plan.policy if plan is not None else agent.policy
    policy.change_mode(mode)
    if plan is not None:
        plan.follow_mode_change()
    agent.emit(ModeChanged(member=agent.name, mode=str(mode), by=by))


async def _find_teammate(team: SessionTeam, name: str) -> LocalTeammate | ProcessTeammateBase:
    team.require_team()
    member = await find_recipient(team, name)
    teammate = team.find(member.name)
    if not isinstance(teammate, LocalTeammate | ProcessTeammateBase):
        raise TeamRefused(
            "team-refused",
            f"{member.name} runs in another program, which alone sets its mode",
            note="nothing was changed",
        )
    return teammate


def _require_stricter(teammate: LocalTeammate, mode: Mode, policy: Policy) -> None:
    """Raise TeamRefused for a less strict mode: a lead cannot grant more than a person or an approved plan did."""
    if mode in MODE_RANK and MODE_RANK[mode] < MODE_RANK[policy.effective_mode]:
        return
    planning = policy.mode is Mode.PLAN
    raise TeamRefused(
        "team-refused",
        f"{teammate.name} is in mode {policy.effective_mode}, and {mode} is not stricter",
        do=[
            f"approve the plan of {teammate.name}" if planning else "the user widens modes: say in your answer what for"
        ],
        note="nothing was changed",
    )
