"""The permission gate of an agent: it applies the verdict on a call and asks the approver when the verdict says so.

The model is notified of a denial with its rule, and the denial is kept for the run's report. Depends on the policy and
on the port for approvers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.tool import ToolResult
from teamwright.agent.toolbox import PreparedCall, revise_input
from teamwright.permissions.excluded_paths import ExcludedPaths
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import (
    Access,
    Approver,
    Decision,
    Mode,
    PermissionAnswer,
    PermissionUpdate,
    Question,
    Verdict,
)
from teamwright.protocol.program_log import log_fact
from teamwright.sandbox.policy import PolicyName

if TYPE_CHECKING:
    from teamwright.sandbox.named_hosts import Destination

_NEXT_STEPS = {
    f"mode {Mode.DELEGATE}": "Nothing was done. Give it to a teammate, who reports to you.",
    f"mode {Mode.PLAN}": "Nothing was done. Put it into the plan if it belongs there.",
}
"""The next step after a denial by this rule, when it is not the default."""

_APPROVER_NAMES = {"terminal": "The user", "another terminal": "The user", "lead": "The lead", "hook": "A hook"}
"""The approver's name for the model. Answers of other approvers have no name."""

_READER, _READS = "read-only agent", "this agent type only reads; the call may change something"

_PATH_MOVED = "since it was asked about, a path of it leads to another place; call it again if it is still right"

MAX_REASON = 200
"""The most characters of a reason or a rule that a denial repeats."""


class Denial(Struct, frozen=True):
    """A call that was denied: for `permission_denials` and the report."""

    member: str
    tool: str
    tool_use_id: str
    input: dict[str, Any]
    rule: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the denial as an object of `permission_denials`."""
        return {
            "tool_name": self.tool,
            "tool_use_id": self.tool_use_id,
            "tool_input": self.input,
            "member": self.member,
            "rule": self.rule,
            "reason": self.reason,
        }


KeepGrant: TypeAlias = Callable[[str, Policy, PermissionAnswer], Awaitable[None]]
"""Store a grant that came with an approval: the member, the policy that asked, and the answer. Never raises."""


LeftOpen: TypeAlias = Callable[[str, str], bool]
"""Return True when this agent's call of that id waited for an answer when an earlier process ended."""


def never_left_open(_member: str, _tool_use_id: str) -> bool:
    """Return False: no earlier process asked."""
    return False


class PermissionGate(Struct):
    """The gate of one agent. `keep_rule` stores the rule of an "always" answer; `rule_scope` says where, for people.

    `owner` is the member that waits during a question. `lead_may_allow` says that the lead may approve a call in the
    user's place. `keep_grant` stores a grant that came with an approval.
    """

    member: str
    policy: Callable[[], Policy]
    approver: Approver
    denials: list[Denial] = field(default_factory=list[Denial])
    keep_rule: Callable[[str], None] | None = None
    rule_scope: str = "for every agent, until this session ends"
    on_waiting: Callable[[str | None], None] | None = None
    read_only: bool = False
    owner: str = ""
    lead_may_allow: Callable[[str, Access, Decision], bool] = lambda _tool, _access, _decision: False
    keep_grant: KeepGrant | None = None
    left_open: LeftOpen = never_left_open
    _allowed_hosts: set[Destination] = field(default_factory=set["Destination"])
    _host_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, call: PreparedCall) -> ToolResult | None:
        """Return None to let the call run, or the denial as a result. A hook may answer a question or require one."""
        if self._exceeds_read_only(call):
            return self._refuse(call, _READER, _READS)
        decision = self.policy().decide(call.tool.name, call.access)
        log_fact(
            *("permissions", "%s %s: %s by %s (%s)", call.ctx.call, call.tool.name, decision.verdict, decision.rule),
            *(decision.reason,),
            member=self.member,
        )
        if decision.verdict is Verdict.DENY:
            return self._refuse(call, decision.rule, _cut_reason(decision.reason))
        if call.hook_answer == "ask" and not decision.needs_person:
            decision = Decision(Verdict.ASK, "hook", call.hook_reason or "A hook requires an answer to this request.")
        call.ctx.grant = self.policy().grant_for(call.access, decision)
        log_fact("sandbox", "%s runs in the policy %s", call.ctx.call, call.ctx.grant.policy, member=self.member)
        if decision.verdict is Verdict.ALLOW or call.hook_answer == "allow":
            return None
        always = decision.find_always()
        asked_about = _real_paths(call.access)
        answer = await self._ask(call, decision, always)
        if answer.allowed and answer.input is None and _real_paths(call.access) != asked_about:
            return self._refuse(call, decision.rule, _PATH_MOVED)
        if not answer.allowed:
            reasons = (_cut_reason(decision.reason),) if decision.needs_person or not answer.text else ()
            return self._refuse(call, decision.rule, " ".join((*reasons, answer.text)).strip(), by=answer.by)
        return await self._apply_approval(call, decision, answer, always)

    async def _apply_approval(
        self, call: PreparedCall, decision: Decision, answer: PermissionAnswer, always: str
    ) -> ToolResult | None:
        """Apply an approval. A rule that forbids the call by now still does, and a changed input gets a new verdict."""
        if answer.input is not None:
            if (problem := revise_input(call, answer.input)) is not None:
                what = problem.content if isinstance(problem.content, str) else problem.brief
                reason = f"the call was changed with the answer, and cannot run that way: {what}"
                return self._refuse(call, decision.rule, reason)
            call.note = (
                f"{_APPROVER_NAMES.get(answer.by, 'The approver')} changed the input of this call before it ran."
            )
            if self._exceeds_read_only(call):
                return self._refuse(call, _READER, _READS)
        if answer.always and always and self.keep_rule is not None:
            self.keep_rule(always)
        if answer.updates and self.keep_grant is not None:
            await self.keep_grant(self.owner, self.policy(), answer)
        now = self.policy().decide(call.tool.name, call.access)
        if now.verdict is Verdict.DENY:
            return self._refuse(call, now.rule, _cut_reason(now.reason))
        # With the directories and rules that came with the answer.
        grant = self.policy().grant_for(call.access, now, is_approved=True)
        if answer.input is None and grant.policy is call.ctx.grant.policy:
            # The paths of a command are those that were asked about, also if a link has changed since.
            grant = replace(grant, named=call.ctx.grant.named)
        call.ctx.grant = grant
        by_lead = answer.by == "lead" and now.verdict is Verdict.ASK
        if by_lead and not self.lead_may_allow(call.tool.name, call.access, now):
            return self._refuse(call, now.rule, "the lead may not allow this: it would have to ask for it itself")
        return None

    def excluded_paths(self, tool: str, directory: Path) -> ExcludedPaths:
        return self.policy().excluded_paths(tool, directory)

    def was_left_open(self, tool_use_id: str) -> bool:
        return self.left_open(self.member, tool_use_id)

    def allows(self, tool: str, access: Access) -> bool:
        """Return True when such a call would run without a question."""
        return self.policy().decide(tool, access).verdict is Verdict.ALLOW

    async def may_connect(self, command: str, host: str, port: int, is_named: bool) -> bool:
        """Return True when a command may connect to this host. The first connection of each host asks.

        The permission of a command is that of the hosts that it names too. On this machine each port is asked about.
        """
        from teamwright.sandbox.named_hosts import Destination  # loaded with the sandbox, which calls this

        destination = Destination.of(host, port)
        access = Access(url=f"https://{destination}/", is_named=is_named, needs_port=destination.is_here)
        decision = self.policy().decide("WebFetch", access)
        if decision.verdict is not Verdict.ASK:
            return decision.verdict is Verdict.ALLOW
        async with self._host_lock:  # the connections of one command often begin together
            if destination in self._allowed_hosts:
                return True
            always = decision.find_always()
            question = Question(
                member=self.member,
                tool="WebFetch",
                kind="permission",
                what=f"connect to {host}:{port}\n# a command in the sandbox: {command}",
                rule=f"{decision.rule}: {decision.reason}",
                always=self._always_text(always),
                input={"host": host, "port": port},
                owner=self.owner or self.member,
                description=f"connect to {host}:{port}",
                lead_may_answer=False,
                mode=str(self.policy().display_mode),
            )
            answer = await self._wait_for(question)
            if answer.allowed:
                self._allowed_hosts.add(destination)
                if answer.always and always and self.keep_rule is not None:
                    self.keep_rule(always)
            return answer.allowed

    def _exceeds_read_only(self, call: PreparedCall) -> bool:
        """Return True when this agent type may not make such a call at all."""
        return self.read_only and not call.access.harmless and not call.tool.is_read_only(call.input)

    async def _ask(self, call: PreparedCall, decision: Decision, always: str) -> PermissionAnswer:
        policy = self.policy()
        limits = call.tool.describe_limits(call.input, call.ctx)
        suggestions: tuple[PermissionUpdate, ...] = ()
        if self.keep_grant is not None:
            from teamwright.permissions.grant_offers import suggest_updates  # only a question pays for this import

            suggestions = suggest_updates(
                call.tool.name, call.access, decision, policy, always, is_limited=bool(limits)
            )
        preview = call.tool.preview(call.input, call.ctx)
        if limits:  # what the call cannot do although it is approved
            is_offered = any(rule.startswith("Unconfined(") for update in suggestions for rule in update.rules)
            instead = ": answer u to run it outside" if is_offered else "; a session with --sandbox off does not"
            preview = f"{preview}\n# {limits}{instead}"
        question = Question(
            member=self.member,
            tool=call.tool.name,
            kind="permission",
            what=preview,
            rule=f"{decision.rule}: {decision.reason}",
            always=self._always_text(always),
            input=call.input.model_dump(exclude_unset=True),
            owner=self.owner or self.member,
            tool_use_id=call.ctx.tool_use_id,
            description=str(getattr(call.input, "description", None) or call.summary),
            suggestions=suggestions,
            lead_may_answer=self.lead_may_allow(call.tool.name, call.access, decision),
            mode=str(policy.display_mode),
            auto_allow_answers=decision.is_unproven and _is_answered_by_auto_allow(policy, call),
        )
        return await self._wait_for(question)

    async def _wait_for(self, question: Question) -> PermissionAnswer:
        if self.on_waiting is None:
            return await self.approver.ask(question)
        self.on_waiting(f"permission for {question.description}")
        try:
            return await self.approver.ask(question)
        finally:
            self.on_waiting(None)

    def _always_text(self, always: str) -> str:
        """Return the rule that "always" would store, and its scope; nothing when it cannot be stored."""
        return f"{always} ({self.rule_scope})" if always and self.keep_rule is not None else ""

    def _refuse(self, call: PreparedCall, rule: str, reason: str, by: str = "") -> ToolResult:
        input_fields = call.input.model_dump(exclude_unset=True)
        self.denials.append(Denial(self.member, call.tool.name, call.ctx.tool_use_id, input_fields, rule, reason))
        who = f"{_APPROVER_NAMES[by]} refused this call" if by in _APPROVER_NAMES else "This call was not allowed"
        return ToolResult.error(
            f"{who}: {reason.rstrip('.')} ({_cut_reason(rule)}).",
            _NEXT_STEPS.get(
                rule, "Nothing was done. Continue without it, or say in your answer what it was needed for."
            ),
        )


def _is_answered_by_auto_allow(policy: Policy, call: PreparedCall) -> bool:
    """Return True when the call would run without a question, were `sandbox.auto_allow` on."""
    if not call.access.sandbox:
        return False
    access = replace(call.access, sandbox=call.access.sandbox | {PolicyName.WORK})
    return policy.decide(call.tool.name, access).verdict is Verdict.ALLOW


def _real_paths(access: Access) -> list[str]:
    """Return the current real paths of a call."""
    return [os.path.realpath(path) for path in (*access.reads, *access.writes)]


def _cut_reason(text: str) -> str:
    """Return the beginning of a reason. It may quote a long command, which the model knows already."""
    return text if len(text) <= MAX_REASON else text[:MAX_REASON] + "…"
