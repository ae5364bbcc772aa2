"""The member of a member process, as its lead controls it: the lead's commands, the reports to it, and the end.

The lead's process asks the member to read its files, reports the state of other members, and interrupts, changes or
ends the member. Of several reasons for its end the first counts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert, field
from msgspec.structs import asdict, replace

from teamwright.agent.agent import Agent
from teamwright.member_process.lead_connection import LeadConnection
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Mode
from teamwright.processes.ipc import IpcBody
from teamwright.protocol.errors import CannotStart, TeamRefused
from teamwright.protocol.event_json import from_json
from teamwright.protocol.events import LIVE, MemberChanged, ModeChanged, TaskChanged, TeamEvent, ToolCalled
from teamwright.protocol.members import MemberState
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.control.action_table import ActionContext, perform
from teamwright.session.wiring.lead_services import apply_policy, rules_from_json
from teamwright.session.wiring.team_factory import track_event
from teamwright.tasks.task_rules import may_free_task
from teamwright.tasks.task_store import ExternalTaskChange, TaskFollower
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.permission_mode_change import set_mode
from teamwright.teams.plan_approval import resume_plan
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.member_process.remote import RemoteMember


class MemberEnd(Struct, frozen=True):
    """The end of a member: `left`, `failed`, `killed` or `suspended`, and the reason."""

    how: str
    cause: str
    agreed_to: str | None = None


_FAILED = "failed: "


class MemberLifetime(Struct, kw_only=True):
    """The lifetime of one member. `teammate` is the member, once it runs here.

    `has_ended` is set together with `ended`.
    """

    teammate: LocalTeammate | None = None
    ended: MemberEnd | None = None
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until_ended(self) -> MemberEnd:
        """Return the end of the member, after waiting for it."""
        await self.has_ended.wait()
        return self.ended or MemberEnd("left", "")

    def end(self, how: str, cause: str) -> None:
        """End the member at once. `how` is suspended (it keeps its place) or killed."""
        if self.ended is not None:
            return
        self.ended = MemberEnd(how, cause)
        self.cut()
        self.has_ended.set()

    def cut(self) -> None:
        """Cut off an ended member, if it is running."""
        teammate = self.teammate
        ended = self.ended
        if teammate is None or ended is None or teammate.state in ENDED_STATES:
            return
        state = MemberState.SUSPENDED if ended.how == MemberState.SUSPENDED else MemberState.KILLED
        if state is MemberState.SUSPENDED:
            self.leave_requests_open()
        teammate.cut_off(state, ended.cause or ended.how)

    def leave_requests_open(self) -> None:
        """Leave open the calls that wait for an answer, before a suspended member is cut off."""

    async def departed(self, _name: str, cause: str, agreed_to: str | None) -> None:
        """Record that the member ended without being ended here (port of `teams`)."""
        if self.ended is None:
            how = "failed" if cause.startswith(_FAILED) else "left"
            self.ended = MemberEnd(how, cause.removeprefix(_FAILED), agreed_to)
        if self.teammate is not None:
            self.teammate.note_end_processed()
        self.has_ended.set()


_RESTS = frozenset({MemberState.IDLE, MemberState.AWAITING})
_IDLE_PAUSE_S = 0.05

_BUSY_PAUSE_S = 0.5
"""Seconds for which a member on another machine collects changes of the task list before it reads them."""

_SPREAD_S = 0.01
"""Seconds for each member of the team, over which its idle members spread: the first one claims the task that became
free, and the others learn of that before they read the list.
"""

_COLLECT_S = 0.02
"""Seconds for each member of the team, for which events and files are collected before they are sent: the server wakes
all processes of the team for each transaction that notifies one of them.
"""


class LedMember(MemberLifetime):
    """The member of this process, as its lead controls it."""

    team: SessionTeam
    agent_factory: AgentFactory
    line: LeadConnection
    here: Callable[[Agent], ActionContext]
    """Creates the context of an action that the lead calls (see `session.control.agent_actions`)."""
    has_open_requests: Callable[[], bool]
    """Returns True while a call here waits for an answer of the lead's process."""
    remote: RemoteMember | None = None
    """Its database side, when the lead is on another machine."""
    _number: int = 0
    _reported_number: int = -1
    _reported_commands: tuple[str, ...] = ()
    _granted: tuple[Rule, ...] = ()
    _untold: list[Rule] = field(default_factory=list[Rule])
    """Rules of "always" answers here, until the lead's policy contains them."""
    _unwatch: Callable[[], None] | None = None
    _reporting: asyncio.Task[None] | None = None
    _early: list[tuple[str, IpcBody]] = field(default_factory=list[tuple[str, IpcBody]])
    """Notes for the member that arrived before it was running."""
    _changed_tasks: set[str] | None = field(default_factory=set[str])
    """The changed tasks that were not read again yet; None: any may have changed."""
    _looking: set[asyncio.Future[Any]] = field(default_factory=set["asyncio.Future[Any]"])

    def leave_requests_open(self) -> None:
        """Implement `MemberLifetime.leave_requests_open`: calls that wait stay without a result, for the resume."""
        for agent in self.agent_factory.living.values():
            agent.conversation.keeps_calls_open = self.has_open_requests()

    def set_member(self, teammate: LocalTeammate) -> None:
        """Set the running member; the lead is notified when it is idle."""
        self.teammate = teammate
        self._reporting = asyncio.create_task(self._report(), name="rests")
        teammate.incoming.wake()
        self.cut()
        early, self._early = self._early, []
        for name, fields in early:
            self.handle_note(name, fields)
        self._tell_mode(teammate)

    async def close(self) -> None:
        """Stop reporting."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    # ── calls of the lead ─────────────────────────────────────────────────────────────────────────

    def receive_welcome(self, welcome: IpcBody) -> None:
        """Apply the lead's policy and state, at the first connection and after each reconnection."""
        if "policy" in welcome:
            self._follow(welcome["policy"])
        self._watched(welcome.get("watched") is True)
        self._reported_number = -1
        self.team.changed.set()

    def present_state(self) -> IpcBody:
        """Return the member's present state (see `LeadListener`)."""
        teammate = self.teammate
        if teammate is None or teammate.state in ENDED_STATES:
            return {}
        return {
            "state": str(teammate.state),
            "detail": teammate.waiting_on,
            "turn": teammate.turns,
            "model": teammate.model,
            "effort": teammate.effort,
            "mode": str(teammate.own_mode),
            "limited": teammate.owes_turn,
            "capped": teammate.cap_reason,
            "plan": [teammate.pending_plan.request_id, teammate.pending_plan.approver],
        }

    def handle_note(self, name: str, fields: IpcBody, /) -> None:
        """Handle a note of the lead (see `LeadListener`)."""
        teammate = self.teammate
        match name:
            case "policy":
                self._follow(fields["policy"])
            case "watched":
                self._watched(fields.get("on") is True)
            case "elsewhere":
                self._elsewhere(from_json(fields["event"]))
            case "end":
                self.end("suspended" if fields.get("suspend") else "killed", str(fields.get("cause") or ""))
            case "look" if teammate is None:
                self._number = int(fields["number"])
            case _ if teammate is not None:
                self._to_teammate(teammate, name, fields)
            case _:
                self._early.append((name, fields))

    def _to_teammate(self, teammate: LocalTeammate, name: str, fields: IpcBody) -> None:
        match name:
            case "look":
                self._number = int(fields["number"])
                self.team.hold_mail(frozenset(fields.get("held", ())))
                teammate.incoming.wake()
                self.team.changed.set()
            case "interrupt":
                teammate.interrupt()
            case "late":
                teammate.deliver_late_answer(str(fields["text"]))
            case "notice":
                teammate.notify(convert(fields["notice"], str | TaskEnd), str(fields.get("key") or ""))
            case "budget_raised":
                teammate.note_raised_budget()
            case _:
                pass

    async def handle_call(self, name: str, fields: IpcBody, /) -> IpcBody:
        """Handle a call of the lead (see `LeadListener`)."""
        teammate = self.teammate
        match name:
            case _ if teammate is None:
                raise TeamRefused("team-refused", "it is not ready yet", note="nothing was changed")
            case "set_mode":
                done = await set_mode(self.team, teammate.name, Mode(fields["mode"]), str(fields["by"]))
                held_by = str(done.held_by) if done.held_by is not None else None
                return {"mode": str(done.mode), "before": str(done.before), "held_by": held_by}
            case "plan_answered":
                await resume_plan(self.team, teammate)
                self.line.notify(
                    "plan", request=teammate.pending_plan.request_id, target=teammate.pending_plan.approver
                )
                return {}
            case _:
                answer = await perform(self.here(teammate.agent), name, fields)
                if answer is not None:
                    return answer
                raise TeamRefused("team-refused", f"{name!r} is nothing that a member does", note="nothing was changed")

    def _watched(self, on: bool) -> None:
        """Begin or stop forwarding live events, as the lead wants."""
        log = self.line.log
        if on and self._unwatch is None and log is not None:
            self._unwatch = log.subscribe(self._live)
        elif not on and self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _live(self, _number: int, event: TeamEvent) -> None:
        if isinstance(event, LIVE):
            self.line.forward_live_event(event)

    def require_wanted(self) -> None:
        """Raise CannotStart when the member was ended before it was running."""
        if self.ended is not None:
            why = self.ended.cause or self.ended.how
            raise CannotStart("backend", f"it was ended while it started: {why}", note="nothing was begun")

    # ── other members ────────────────────────────────────────────────────────────────────────────────────────────

    def record_event(self, number: int, event: TeamEvent) -> None:
        """Add an event of this process to the members' states, and a refused call to the run's report."""
        self.team.status.apply(number, event)
        if isinstance(event, MemberChanged) and self.teammate is not None and self.teammate.state not in _RESTS:
            self._reported_number = -1  # the member was woken, so the lead is notified again when it is idle
        denials = self.agent_factory.denials
        if isinstance(event, ToolCalled) and denials:
            self.line.notify("denied", denials=[asdict(one) for one in denials])
            denials.clear()

    def _elsewhere(self, event: TeamEvent | None) -> None:
        if event is None:
            return
        self.team.status.apply(self.team.status.event_number, event)
        if self.remote is not None:
            pause_s = _COLLECT_S * len(self.team.status.members)
            self.line.set_pause(pause_s)
            self.remote.set_pause(pause_s)
        track_event(self.agent_factory.budget_tracker, self.team, event)
        self.agent_factory.policies.note_event(0, event)
        if isinstance(event, TaskChanged):
            self.tasks_changed()

    def add_always_rules(self, text: str, rules: tuple[Rule, ...]) -> None:
        """Apply the rules of an "always" answer here at once, and send them to the lead for all other processes."""
        self._untold += rules
        self.line.notify("always", rule=text)

    def _follow(self, policy: IpcBody) -> None:
        """Apply the lead's policy here, also to agents with a narrower one."""
        session = self.agent_factory.policies.session
        more = apply_policy(session, policy, is_elsewhere=self.remote is not None)
        former = self._granted
        self._granted = rules_from_json(policy, session.scope.base)
        rule_texts = {rule.text for rule in self._granted}
        former += tuple(rule for rule in self._untold if rule.text in rule_texts)
        self._untold = [rule for rule in self._untold if rule.text not in rule_texts]
        for one in self.agent_factory.policies:
            if one is session or one.mode is not Mode.BUBBLE:
                one.replace_rules(former, self._granted)
            if one is not session and more and one.mode is not Mode.BUBBLE:
                directories = tuple(dict.fromkeys((*one.scope.directories, *more)))
                one.change_scope(replace(one.scope, directories=directories))

    # ── reports to the lead ────────────────────────────────────────────────────────────────────────────────

    def check_tasks(self, known: TaskFollower, names: Collection[str] | None) -> None:
        """Read the changed tasks of the list; from another machine all that change within a moment together."""
        if self.remote is None:
            self._look_at(known.check_files(names))
            return
        self._changed_tasks = None if names is None or self._changed_tasks is None else {*self._changed_tasks, *names}
        if not self._looking:
            self._look_at(self._check_gathered(known))

    async def _check_gathered(self, known: TaskFollower) -> None:
        """Read the changed tasks until none is left. A member at work looks at the list itself before it rests."""
        while self._changed_tasks is None or self._changed_tasks:
            await asyncio.sleep(self._pause_s())
            names, self._changed_tasks = self._changed_tasks, set()
            if names is None or names:
                await known.check_files(names)

    def _pause_s(self) -> float:
        """Return the seconds for which changes are collected. Idle members do not all reach for a free task at once."""
        if self.teammate is None or self.teammate.state is not MemberState.IDLE:
            return _BUSY_PAUSE_S
        return _IDLE_PAUSE_S + random.uniform(0, _SPREAD_S * len(self.team.status.members))

    def drop_tasks(self, ids: Collection[str]) -> None:
        """Do not read these tasks: another member has them."""
        if self._changed_tasks is not None:
            self._changed_tasks.difference_update(ids)

    def _look_at(self, look: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(look)
        self._looking.add(task)
        task.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Future[Any]) -> None:
        self._looking.discard(task)
        if not task.cancelled():
            task.exception()  # a file that cannot be read is read again at the next change
        if self.remote is not None:
            self.team.changed.set()
        else:
            self.tasks_changed()

    def note_outside_change(self, change: ExternalTaskChange) -> None:
        """Follow a change of the task list by another process.

        On another machine only a change that may free a task wakes the member: many idle members follow one list.
        """
        self.agent_factory.policies.note_outside_change(change)
        if self.remote is None or may_free_task(change.after):
            self.tasks_changed()

    def tasks_changed(self) -> None:
        """Check for claimable tasks, because one may have become free."""
        if self.teammate is not None and self.teammate.state is MemberState.IDLE:
            self.teammate.incoming.wake()
        self.team.changed.set()

    async def _report(self) -> None:
        """Notify the lead each time that the member has nothing left to do, with the commands that it left running."""
        team = self.team
        jobs = self.agent_factory.toolset.jobs
        while True:
            team.changed.clear()
            number = self._number
            commands = jobs.running_lines()
            if (number, commands) != (self._reported_number, self._reported_commands) and self._rests():
                self._reported_number = number
                self._reported_commands = commands
                self.line.notify("rests", number=number, commands=commands)
            await team.changed.wait()

    def _rests(self) -> bool:
        teammate = self.teammate
        agents = self.team.subagents
        if teammate is None or not teammate.is_resting or teammate.incoming.wake_pending or self._looking:
            return False
        return agents is None or not agents.has_background_runs()

    def record_mode(self, _number: int, event: TeamEvent) -> None:
        """Send the member's own mode to the lead, before the event with the effective mode."""
        if isinstance(event, ModeChanged) and self.teammate is not None and event.member == self.teammate.name:
            self._tell_mode(self.teammate)

    def _tell_mode(self, teammate: LocalTeammate) -> None:
        self.line.notify("mode", mode=str(teammate.own_mode))


def remote_state(status: TeamStatus, name: str) -> MemberState | None:
    """Return the state of a member in another process (see `TeamPorts.remote_state`)."""
    known = status.members.get(name)
    try:
        state = MemberState(known.state) if known is not None else MemberState.IDLE
    except ValueError:
        return MemberState.IDLE
    return None if state in ENDED_STATES else state
