"""Approval of plans: by the lead, a person, or a setting that a person wrote.

Implements the port of `agent.plan_mode`. A member's pending plan is watched until it is answered, expires or the member
ends. The next process asks again for plans that are open when the session closes. Depends on the request queue and the
team.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from msgspec import Struct, field

from teamwright.agent.plan_mode import PlanExit, PlanMode, PlanOutcome, PlanSubmission
from teamwright.agent.tool import Workplace
from teamwright.config.settings.settings import Settings
from teamwright.permissions.grant_bounds import check_mode
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Approver, Mode, PermissionAnswer, PermissionUpdate, Question
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import Emit, ModeChanged, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, display_name, now_ms
from teamwright.protocol.mail import PermissionRequest, PlanApprovalRequest
from teamwright.teams.plan_requests import POLICY_APPROVER, USER_APPROVER, PendingPlan, newest_plan
from teamwright.teams.team import SessionTeam

HUMAN, AUTO = "human", "auto"
APPROVERS = (LEAD_ALIAS, HUMAN, AUTO)
"""Values of the setting `plan_approval`."""

_TARGETS = {LEAD_ALIAS: LEAD, HUMAN: USER_APPROVER, AUTO: POLICY_APPROVER}

_NO_PERSON = {"hook": "A hook of the user", "policy": "The user's policy", "deadline": "The deadline"}
"""Approvers of the queue that are not persons; every other answer is a person's, from any terminal."""


class PlanApprovals(Struct):
    """The plan approvals of one session. `who` approves members' plans, `origin` is the source of that setting.

    A person approves the lead's own plans. `timeout_s` is how long a plan waits for the lead, in seconds; None is
    without limit.
    """

    approver: Approver
    emit: Emit
    who: str = LEAD_ALIAS
    origin: str = ""
    timeout_s: float | None = None
    team: SessionTeam | None = None
    lead: PlanMode | None = None
    _modes: WeakSet[PlanMode] = field(default_factory=WeakSet[PlanMode])
    _watched: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _asks_for: dict[str, str] = field(default_factory=dict[str, str])

    def configure(self, settings: Settings, timeout_s: float | None, *, led_externally: bool = False) -> None:
        """Set the approver from the settings, and how long a plan waits for the lead. Raises UsageError.

        `led_externally`: the lead of an external team approves plans, not the approver in the settings.
        """
        self.who = settings.plan_approval
        self.timeout_s = timeout_s
        self.origin = settings.origins.get("plan_approval", "")
        if self.who not in APPROVERS:
            raise UsageError(
                "usage",
                f"{self.who[:60]!r} does not approve plans",
                looked_at=[("from", self.origin or "plan_approval"), ("approvers", ", ".join(APPROVERS))],
                note="nothing was started",
            )
        if led_externally:
            self.who = LEAD_ALIAS

    def join_team(self, team: SessionTeam) -> None:
        """Submit the plans of this process's members to this team, which another process leads."""
        self.team = team

    def lead_team(self, team: SessionTeam) -> None:
        """Watch the plans of this team's members from now on."""
        self.team = team
        team.external.report_requests(self)

    def make_plan_mode(
        self, policy: Policy, plans: Path, record: Path | None, *, name: str = "", gate: Policy | None = None
    ) -> PlanMode:
        """Return the plan mode of a new agent. A lead needs an approval to leave it.

        `name` is the member whose changes of mode are emitted as events; empty for a sub-agent.
        """
        on_change = partial(self._emit_mode, name)
        plan_mode = PlanMode(
            policy, plans, record, is_lead=name == LEAD, deciding_policy=gate, on_mode_change=on_change
        )
        self._modes.add(plan_mode)
        return plan_mode

    def restore_plan_mode(self, name: str, mode: PlanMode, place: Workplace, *, new: bool, begins: bool) -> PlanMode:
        """Return the plan mode of an agent as it was left, or of a `new` agent, which `begins` in plan mode.

        A workplace without content is not read before it is written. Raises StorageError.
        """
        if new:
            mode.remove_record()
        if new or not mode.restore():
            if begins:
                mode.start(PlanExit.APPROVED)
        elif mode.is_on:
            self.emit(ModeChanged(member=name, mode=str(Mode.PLAN), by=name))
        if mode.is_on and not mode.read():
            place.note_seen(mode.file, b"")
        if name == LEAD:
            self.lead = mode
        return mode

    def _emit_mode(self, name: str, mode: Mode, by: str) -> None:
        if name:
            self.emit(ModeChanged(member=name, mode=str(mode), by=by or name))

    def lead_changed(self, before: Mode) -> None:
        """Record that the lead's mode changed from `before`. Raises StorageError."""
        if self.lead is not None:
            self.lead.follow_mode_change(before)

    # ── handing in ───────────────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, member: str, mode: PlanMode, submission: PlanSubmission) -> PlanOutcome:
        from teamwright.teams.plan_approval import submit_plan

        if self.who == AUTO:
            return await self._approve_automatically(member, mode, submission)
        team = self.team
        teammate = team.find_in_process(member) if team is not None and member != LEAD else None
        if team is None or teammate is None:
            return await self._ask_person(member, mode, submission)
        target = _TARGETS[self.who]
        request = await submit_plan(team, teammate, submission, target, self.timeout_s if target == LEAD else None)
        return PlanOutcome(None, request=request, approver=target)

    async def _ask_person(self, member: str, mode: PlanMode, submission: PlanSubmission) -> PlanOutcome:
        answer = await self.approver.ask(
            _question(
                member, submission.plan, str(submission.file), submission.rules, submission.tool_use_id, mode.mode_after
            )
        )
        if not answer.allowed:
            return PlanOutcome(False, answer.by, answer.text)
        mode.leave(_granted_mode(answer), by=answer.by, call=submission.call, granted=submission.rules)
        return PlanOutcome(True, _NO_PERSON.get(answer.by, "The user"))

    async def _approve_automatically(self, member: str, mode: PlanMode, submission: PlanSubmission) -> PlanOutcome:
        """Approve a plan by the setting: record a request that is answered at once, and emit a notice."""
        from teamwright.teams.plan_approval import answer_plan, submit_plan

        team = self.team
        why = f"the setting plan_approval is {AUTO} ({self.origin})"
        teammate = team.find_in_process(member) if team is not None and member != LEAD else None
        if team is None or teammate is None:
            mode.leave(
                by=POLICY_APPROVER, call=submission.call
            )  # no person has read the permissions that the plan asks for
        else:
            request = await submit_plan(team, teammate, submission, POLICY_APPROVER, None)
            if mode.pending_request:
                answer = PermissionAnswer(True, POLICY_APPROVER, why)
                await answer_plan(team, request, answer, submission.call, is_rerun=submission.is_rerun)
        shown_name = display_name(member)
        self.emit(Notice(member=member, text=f"the plan of {shown_name} was approved without a look: {why}"))
        return PlanOutcome(True, "The user's setting")

    def note_request(self, member: str, message: PermissionRequest | PlanApprovalRequest, /) -> None:
        """Handle a plan that an external member sent by mail; a repeated plan changes nothing."""
        from teamwright.teams.external_plans import open_external_plan

        if self.team is None or isinstance(message, PermissionRequest):
            return
        target = _TARGETS[self.who]
        request = open_external_plan(self.team, member, message, target, self.timeout_s if target == LEAD else None)
        if request is None or self.team.requests.get_answer(str(request["id"])) is not None:
            return
        if target == POLICY_APPROVER:
            why = f"the setting plan_approval is {AUTO} ({self.origin})"
            self.emit(Notice(member=member, text=f"the plan of {member} was approved without a look: {why}"))
        self.watch(request)

    def note_joined(self, member: str, /) -> None:
        """Resume waiting for the plan that an external member sent before this process led the team."""
        from teamwright.teams.external_plans import bound_incarnation

        if self.team is None or (incarnation := bound_incarnation(self.team, member)) is None:
            return
        request = newest_plan(self.team.requests, member, incarnation)
        if request is not None and self.team.requests.get_answer(str(request["id"])) is None:
            if (followed := self.team.external.listeners.get(member.lower())) is not None:
                followed.note_plan(PendingPlan(str(request["id"]), str(request.get("target") or "")))
            self.watch(request)

    def note_left(self, member: str, /) -> None:
        """Stop asking about the plan of an external member that has ended."""
        for id, task in list(self._watched.items()):
            if self._asks_for.get(id) == member.lower():
                task.cancel()

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def watch(self, request: Mapping[str, Any]) -> None:
        """Watch this plan until it is answered: ask a person, or let the lead's time run."""
        id = str(request["id"])
        team = self.team
        beyond = team is not None and str(request["requester"]).lower() in team.external.external_names
        if id in self._watched or (request.get("target") == POLICY_APPROVER and not beyond):
            return
        task = asyncio.create_task(self._wait_for_answer(id, request), name=f"answer to {id}")
        self._watched[id] = task
        self._asks_for[id] = str(request["requester"]).lower()
        task.add_done_callback(lambda _: (self._watched.pop(id, None), self._asks_for.pop(id, None)))

    async def _wait_for_answer(self, id: str, request: Mapping[str, Any]) -> None:
        from teamwright.teams.plan_approval import answer_plan

        team = self.team
        name = str(request["requester"])
        teammate = team.find(name) if team is not None else None
        if team is None or not (
            name.lower() in team.external.external_names or (teammate is not None and teammate.run_task is not None)
        ):
            return
        asking = asyncio.create_task(self._first_answer(request), name=f"answer wanted for {id}")
        run_tasks = (
            {teammate.run_task} if teammate is not None and teammate.run_task is not None else set[asyncio.Task[None]]()
        )
        try:
            await asyncio.wait({asking, *run_tasks}, return_when=asyncio.FIRST_COMPLETED)
            answer = asking.result() if asking.done() else None
            if answer is not None and (teammate is None or teammate.pending_plan.request_id == id):
                await answer_plan(team, id, answer, id if request.get("target") == USER_APPROVER else "")
        except TeamRefused:
            return  # another approver answered first
        except TeamwrightError as problem:
            self.emit(Notice(member=name, text=f"{id} could not be answered: {problem.what}", level="warning"))
        finally:
            asking.cancel()

    async def _first_answer(self, request: Mapping[str, Any]) -> PermissionAnswer | None:
        """Return the first answer: of a person, of a setting, or the denial at the deadline."""
        if request.get("target") == USER_APPROVER:
            return await self._ask(request)
        if request.get("target") == POLICY_APPROVER:
            return PermissionAnswer(True, POLICY_APPROVER, f"the setting plan_approval is {AUTO}")
        deadline = request.get("deadline")
        return await _late(deadline if isinstance(deadline, int) else None)

    async def _ask(self, request: Mapping[str, Any]) -> PermissionAnswer | None:
        """Return the person's answer; None when the question was cancelled because the session closes."""
        rules = tuple(str(rule) for rule in request.get("rules") or ())
        member = str(request["requester"])
        use = str(request.get("tool_use_id") or "")
        answer = await self.approver.ask(_question(member, str(request["plan"]), str(request["plan_file"]), rules, use))
        if answer.by == "cancelled":
            return None
        named = _granted_mode(answer)
        by = answer.by if answer.by in _NO_PERSON else USER_APPROVER
        granted = () if named is None else (PermissionUpdate("setMode", mode=str(named)),)
        return PermissionAnswer(answer.allowed, by, answer.text, updates=granted)

    async def close(self) -> None:
        """Stop asking and waiting. The next process that leads the team asks about open plans. May be called twice."""
        tasks = list(self._watched.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for mode in self._modes:
            mode.remove_unused_file()


async def _late(deadline: int | None) -> PermissionAnswer:
    """Return a denial, once the deadline (milliseconds since 1970) has passed."""
    if deadline is None:
        await asyncio.Event().wait()
    await asyncio.sleep(max(0, (deadline or 0) - now_ms()) / 1000)
    return PermissionAnswer(False, "deadline", "no answer came in time; submit it again, or do work that needs no plan")


def _question(
    member: str, plan: str, file: str, rules: tuple[str, ...], tool_use_id: str, mode_after: Mode = Mode.BUBBLE
) -> Question:
    then = "" if mode_after is Mode.BUBBLE else f", then mode {mode_after} applies"
    what = plan if not rules else f"{plan.rstrip()}\n\nTo be allowed with it: {', '.join(rules)}"
    return Question(
        member=member,
        tool="ExitPlanMode",
        kind="plan",
        what=what,
        rule=f"mode {Mode.PLAN}: nothing is changed until the plan was approved{then}",
        input={"plan": plan, "planFilePath": file},
        owner=member,
        tool_use_id=tool_use_id,
        description=f"the plan in {file}",
        suggestions=(PermissionUpdate("setMode", mode=str(Mode.ACCEPT_EDITS)),),
    )


def _granted_mode(answer: PermissionAnswer) -> Mode | None:
    """Return the mode that was granted with the approval; None is the mode from before."""
    for update in answer.updates if answer.allowed else ():
        if update.kind == "setMode":
            with suppress(UsageError):
                return check_mode(update, Mode.DEFAULT)
    return None
