"""Modes in life: a member's permission mode is changed while it runs, and holds from its very next call on.

In this order: the policy (so that whoever it started follows at once), the roster, a message to the member that wakes
nobody, the event. The lead's process writes the roster and team.json, for a member process too. Knows the team;
refuses to know surfaces.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.plan_mode import PlanExit
from teamwright.agent.reminders import mode_notice
from teamwright.permissions.decide import Policy
from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import iso_time
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import ModeChangeMessage as ModeMessage
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.in_process_teammate import InProcessTeammate
from teamwright.teams.mailbox.outgoing import find_recipient, send_protocol
from teamwright.teams.mode_rank import MODE_RANK, ModeSet, limiting_mode
from teamwright.teams.plan_approval import approve_by_mode_change
from teamwright.teams.roster_entries import is_written_by_lead, save_mode_everywhere
from teamwright.teams.team import SessionTeam


async def set_mode(team: SessionTeam, name: str, mode: Mode, by: str) -> ModeSet:
    """Another mode for a member of this process, from its next call on; an idle one is not woken.

    `by` is who changes it: `user`, or the lead, which may only make it stricter. No member exceeds the lead, whatever
    mode it is given. Its edits are asked about again, also where a person accepted them ahead, and whatever comes of
    the change. Raises UnknownMember naming the nearest, TeamRefused; then the mode is as before. StorageError and
    LockTimeout leave a mode that is stricter in force for this process.
    """
    lead = team.lead_policy
    mate = await _find_teammate(team, name)
    mate.edits_accepted_by = ""
    if isinstance(mate, ProcessTeammateBase):
        return await _set_remote_mode(team, mate, mode, by)
    policy = mate.agent.policy
    before = policy.mode
    if mode is before:
        if mode is Mode.PLAN:
            enter_mode(mate.agent, mode, by)  # it may have entered by itself: then it does not leave alone any more
        return ModeSet(mate.name, mode, before, limiting_mode(mode, lead))
    if by == LEAD:
        _require_stricter(mate, mode, policy)
    wider = MODE_RANK.get(mode, MODE_RANK[lead.effective_mode]) > MODE_RANK[policy.effective_mode]
    enter_mode(mate.agent, mode, by)
    try:
        if not is_written_by_lead(team):
            await save_mode_everywhere(team, mate)
    except BaseException:
        if wider and policy.mode is mode:
            enter_mode(mate.agent, before, by)
        raise
    await approve_by_mode_change(team, mate)
    summary = mode_notice(mode).removesuffix(".")
    await send_protocol(
        team, by, mate.name, ModeMessage(sender=by, mode=str(mode), timestamp=iso_time()), summary=summary[:200]
    )
    return ModeSet(mate.name, mode, before, limiting_mode(mode, lead))


async def _set_remote_mode(team: SessionTeam, teammate: ProcessTeammateBase, mode: Mode, by: str) -> ModeSet:
    """See `set_mode`: its own process changes the mode, and this one writes it."""

    async def perform(mode: Mode) -> ModeSet:
        said = await teammate.perform("set_mode", mode=str(mode), by=by)
        held = Mode(said["held_by"]) if said["held_by"] else None
        return ModeSet(teammate.name, Mode(said["mode"]), Mode(said["before"]), held)

    made = await perform(mode)
    try:
        await save_mode_everywhere(team, teammate)
    except BaseException:
        lasting = team.lead_policy.effective_mode
        if MODE_RANK.get(mode, MODE_RANK[lasting]) > MODE_RANK.get(made.before, MODE_RANK[lasting]):
            await perform(made.before)
        raise
    return made


def enter_mode(agent: Agent, mode: Mode, by: str) -> None:
    """The agent itself is in this mode from its next call on, and that is told. Raises StorageError."""
    plan = agent.plan
    if mode is Mode.PLAN and plan is not None:
        plan.enter(PlanExit.APPROVED, by)  # who was put into it does not leave it alone
        return
    policy = plan.policy if plan is not None else agent.policy
    policy.mode = mode
    if plan is not None:
        plan.follow_mode_change()
    agent.emit(ModeChanged(member=agent.name, mode=str(mode), by=by))


async def _find_teammate(team: SessionTeam, name: str) -> InProcessTeammate | ProcessTeammateBase:
    team.require_team()
    member = await find_recipient(team, name)
    mate = team.find(member.name)
    if not isinstance(mate, InProcessTeammate | ProcessTeammateBase):
        raise TeamRefused(
            "team-refused",
            f"{member.name} runs in another program, which alone sets its mode",
            note="nothing was changed",
        )
    return mate


def _require_stricter(teammate: InProcessTeammate, mode: Mode, policy: Policy) -> None:
    """A lead may take away; what a person or an approved plan did not give, it cannot."""
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
