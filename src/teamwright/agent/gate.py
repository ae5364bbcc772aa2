"""The gate: a policy's verdict on a call, and the asking when the verdict is to ask.

What is refused is told to the model with the rule that refused it, and remembered for the run's report. Knows
the policy and the port for asking; does not know who answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from teamwright.agent.tool import ToolResult
from teamwright.agent.toolbox import Prepared
from teamwright.permissions.decide import Policy
from teamwright.permissions.verdict import Answer, Asker, Decision, Question, Verdict

REASON_MOST = 200
"""Characters of a reason, or of a rule, that a refusal repeats."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that was not run: for `permission_denials` and the report."""

    member: str
    tool: str
    tool_use_id: str
    input: dict[str, Any]
    rule: str
    reason: str


@dataclass(slots=True)
class Gate:
    """Decides for one agent. `keep_always` keeps the rule of an "always" answer; `kept` says where, for people."""

    member: str
    policy: Callable[[], Policy]
    asker: Asker
    denials: list[Denial] = field(default_factory=list[Denial])
    keep_always: Callable[[str], None] | None = None
    kept: str = "for every agent, until this session ends"
    waiting: Callable[[str | None], None] | None = None
    read_only: bool = False

    async def __call__(self, call: Prepared) -> ToolResult | None:
        """None lets the call run; a result is the refusal."""
        if self.read_only and not call.access.harmless and not call.tool.read_only(call.input):
            return self._refuse(call, "read-only agent", "this kind of agent only reads; the call may change something")
        decision = self.policy().decide(call.tool.name, call.access)
        if decision.verdict is Verdict.ALLOW:
            return None
        if decision.verdict is Verdict.DENY:
            return self._refuse(call, decision.rule, _begun(decision.reason))
        answer = await self._ask(call, decision)
        if not answer.allowed:
            return self._refuse(call, decision.rule, answer.text or _begun(decision.reason), by=answer.by)
        if answer.always and decision.always and self.keep_always is not None:
            self.keep_always(decision.always)
        return None

    async def _ask(self, call: Prepared, decision: Decision) -> Answer:
        question = Question(
            member=self.member,
            tool=call.tool.name,
            kind="permission",
            what=call.tool.preview(call.input, call.ctx),
            rule=f"{decision.rule}: {decision.reason}",
            always=self._offer(decision),
            input=call.input.model_dump(exclude_unset=True),
        )
        if self.waiting is None:
            return await self.asker.ask(question)
        self.waiting(f"permission for {call.summary}")
        try:
            return await self.asker.ask(question)
        finally:
            self.waiting(None)

    def _offer(self, decision: Decision) -> str:
        """What "always" would keep, and where; nothing where it could not be kept."""
        return f"{decision.always} ({self.kept})" if decision.always and self.keep_always is not None else ""

    def _refuse(self, call: Prepared, rule: str, reason: str, by: str = "") -> ToolResult:
        given = call.input.model_dump(exclude_unset=True)
        self.denials.append(Denial(self.member, call.tool.name, call.ctx.tool_use_id, given, rule, reason))
        who = "The user refused this call" if by == "terminal" else "This call was not allowed"
        return ToolResult.error(
            f"{who}: {reason.rstrip('.')} ({_begun(rule)}).",
            "Nothing was done. Go on without it, or say in your answer what it was needed for.",
        )


def _begun(text: str) -> str:
    """The beginning of a reason: it may quote a command of any length, which the model wrote and knows."""
    return text if len(text) <= REASON_MOST else text[:REASON_MOST] + "…"
