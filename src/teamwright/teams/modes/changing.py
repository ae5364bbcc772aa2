"""Modes in life: a member's permission mode is changed while it runs, and holds from its very next call on.

In this order: the policy (so that whoever it started follows at once), the roster, a message to the member that wakes
nobody, the event. The lead's process writes the roster and team.json, for a member process too. Knows the team;
refuses to know surfaces.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.plan_mode import Leaving
from teamwright.agent.reminders import news_of
from teamwright.permissions.decide import Policy
from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import ModeChanged as ModeMessage
from teamwright.teams.mailing.post import recipient, send_protocol
from teamwright.teams.member.away import Away
from teamwright.teams.modes.reach import REACH, ModeSet, held_by
from teamwright.teams.own_entries import lead_writes, note_mode
from teamwright.teams.plans.approval import mode_was_set
from teamwright.teams.team import Team
from teamwright.teams.teammate import Teammate


async def set_mode(team: Team, name: str, mode: Mode, by: str) -> ModeSet:
    """Another mode for a member of this process, from its next call on; an idle one is not woken.

    `by` is who changes it: `user`, or the lead, which may only make it stricter. No member exceeds the lead, whatever
    mode it is given. Its edits are asked about again, also where a person accepted them ahead, and whatever comes of
    the change. Raises UnknownMember naming the nearest, TeamRefused; then the mode is as before. StorageError and
    LockTimeout leave a mode that is stricter in force for this process.
    """
    lead = team.lead_policy
    mate = await _found(team, name)
    mate.edits_accepted_by = ""
    if isinstance(mate, Away):
        return await _set_away(team, mate, mode, by)
    policy = mate.agent.policy
    before = policy.mode
    if mode is before:
        if mode is Mode.PLAN:
            enter(mate.agent, mode, by)  # it may have entered by itself: then it does not leave alone any more
        return ModeSet(mate.name, mode, before, held_by(mode, lead))
    if by == LEAD:
        _require_stricter(mate, mode, policy)
    wider = REACH.get(mode, REACH[lead.lasting_mode]) > REACH[policy.lasting_mode]
    enter(mate.agent, mode, by)
    try:
        if not lead_writes(team):
            await note_mode(team, mate)
    except BaseException:
        if wider and policy.mode is mode:
            enter(mate.agent, before, by)
        raise
    await mode_was_set(team, mate)
    summary = news_of(mode).removesuffix(".")
    await send_protocol(
        team, by, mate.name, ModeMessage(sender=by, mode=str(mode), timestamp=iso()), summary=summary[:200]
    )
    return ModeSet(mate.name, mode, before, held_by(mode, lead))


async def _set_away(team: Team, mate: Away, mode: Mode, by: str) -> ModeSet:
    """See `set_mode`: its own process changes the mode, and this one writes it."""

    async def perform(mode: Mode) -> ModeSet:
        said = await mate.perform("set_mode", mode=str(mode), by=by)
        held = Mode(said["held_by"]) if said["held_by"] else None
        return ModeSet(mate.name, Mode(said["mode"]), Mode(said["before"]), held)

    made = await perform(mode)
    try:
        await note_mode(team, mate)
    except BaseException:
        lasting = team.lead_policy.lasting_mode
        if REACH.get(mode, REACH[lasting]) > REACH.get(made.before, REACH[lasting]):
            await perform(made.before)
        raise
    return made


def enter(agent: Agent, mode: Mode, by: str) -> None:
    """The agent itself is in this mode from its next call on, and that is told. Raises StorageError."""
    plan = agent.plan
    if mode is Mode.PLAN and plan is not None:
        plan.enter(Leaving.APPROVED, by)  # who was put into it does not leave it alone
        return
    policy = plan.policy if plan is not None else agent.policy
    policy.mode = mode
    if plan is not None:
        plan.changed()
    agent.emit(ModeChanged(member=agent.name, mode=str(mode), by=by))


async def _found(team: Team, name: str) -> Teammate | Away:
    team.require()
    member = await recipient(team, name)
    mate = team.find(member.name)
    if not isinstance(mate, Teammate | Away):
        raise TeamRefused(
            "team-refused",
            f"{member.name} runs in another program, which alone sets its mode",
            note="nothing was changed",
        )
    return mate


def _require_stricter(mate: Teammate, mode: Mode, policy: Policy) -> None:
    """A lead may take away; what a person or an approved plan did not give, it cannot."""
    if mode in REACH and REACH[mode] < REACH[policy.lasting_mode]:
        return
    planning = policy.mode is Mode.PLAN
    raise TeamRefused(
        "team-refused",
        f"{mate.name} is in mode {policy.lasting_mode}, and {mode} is not stricter",
        do=[f"approve the plan of {mate.name}" if planning else "the user widens modes: say in your answer what for"],
        note="nothing was changed",
    )
