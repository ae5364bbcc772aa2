"""The meter of one agent: it reserves the estimated usage before a model call and records the real usage after it.

The prompt is estimated as the last prompt plus the messages since; the first prompt from its bytes. Implements the port
of `models`. Depends on requests, prices and the budget tracker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TypeAlias
from weakref import WeakValueDictionary

from msgspec.structs import replace

from teamwright.budgets.budget_scope import Estimate, Scope
from teamwright.budgets.budget_tracker import BudgetTracker, Reservation
from teamwright.models.model import (
    INTERRUPTED,
    BudgetRefusal,
    Failure,
    Model,
    ModelCard,
    Prefix,
    Reply,
    Request,
    price_usage,
)
from teamwright.models.token_estimate import BYTES_PER_TOKEN, answer_tokens, message_tokens, written_tokens
from teamwright.protocol.errors import LimitExceeded, TeamRefused
from teamwright.protocol.events import ESTIMATED_COUNT, FAILED_ATTEMPTS, Emit, ModelCallEnded
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import encode
from teamwright.protocol.usage import NO_USAGE, Budget, Usage

Clock: TypeAlias = Callable[[], float]

OUTPUT_HELD = 8_192
"""Maximum tokens that are reserved for an answer. Answers may be longer, up to the model's limit, but seldom are:
reserving the limit would make members wait for each other although there is room for all.
"""

CACHE_S = 270.0
"""Seconds after a call in which its prompt is expected in the service's cache, which keeps it for 5 minutes."""

_NOT_ESTIMATED = Estimate(0, 0)
"""The estimate of a call without caps."""

_ANSWER = b'{"role":"assistant"'


class AgentMeter:
    """The meter of one agent (the port of `models`). `caller` is the meter of the agent that started a sub-agent.

    `own` is the agent's scope. `bounded`: the caps of the agent's task apply to it.
    """

    def __init__(
        self,
        budget_tracker: BudgetTracker,
        agent: str,
        own: Scope | None = None,
        caller: AgentMeter | None = None,
        *,
        bounded: bool = True,
    ) -> None:
        self.budget_tracker = budget_tracker
        self.agent = agent
        self.caller = caller
        self.bounded = bounded
        self.own = own
        self._hold: Reservation | None = None
        self._sent: tuple[ModelCard, int] | None = None
        self._task = ""
        self._purpose = ""
        self._sent_items = 0
        self._known = 0
        self._context = 0
        self._cached = 0
        self._at = 0.0
        self._most: tuple[str, int] | None = None

    # ── the port ──────────────────────────────────────────────────────────────────────────────────────────────

    async def reserve(self, request: Request, card: ModelCard) -> BudgetRefusal | None:
        self._task = self._task_now()
        self._purpose = request.purpose
        self._sent_items = len(request.items)
        scopes = self._scopes()
        capped = self.budget_tracker.estimates or any(scope.budget for scope in scopes)
        call = self._estimate(request, card) if capped else _NOT_ESTIMATED
        got = await self.budget_tracker.reserve(scopes, call, self.agent, self._owner)
        if isinstance(got, BudgetRefusal):
            return got
        self._hold = got
        self._sent = (card, call.tokens_in)
        return None

    async def charge(self, usage: Usage) -> BudgetRefusal | None:
        return None if self._hold is None else await self._hold.charge(usage)

    def settle(self, answer: Reply | Failure | None) -> str:
        """Implement `Meter.settle`. A second settling of the same call changes nothing."""
        hold = self._hold
        self._hold = None
        if hold is None:
            return ""
        reply = answer if isinstance(answer, Reply) else None
        lost = NO_USAGE if answer is None else answer.failed_usage
        hold.settle(self._counted(reply) + lost if reply is not None else lost if lost.requests else None)
        if lost.requests:
            self._book(lost, reply.model if reply is not None else self._wire, failed=True)
        if reply is None:
            return self._task if lost.requests else ""
        usage = reply.usage
        if not self._purpose:
            self._known = self._sent_items
            self._context = usage.tokens
            self._cached = usage.prompt_tokens if usage.cache_read or usage.cache_write else 0
            self._at = monotonic()
        self._book(usage, reply.model)
        return self._task

    def _book(self, usage: Usage, model: str, *, failed: bool = False) -> None:
        caller = self.caller.agent if self.caller is not None else ""
        self.budget_tracker.add_usage(
            self.agent, usage, model, caller=caller, task=self._task, failed=failed, purpose=self._purpose
        )

    @property
    def _wire(self) -> str:
        return self._sent[0].wire if self._sent is not None else ""

    async def admit(self, calls: int) -> int:
        admitted = await self.budget_tracker.admit(self._scopes(), calls)
        account = self.budget_tracker.books.account(self.agent)
        account.tool_calls += admitted
        account.incarnation_calls += admitted
        return admitted

    def beside(self) -> AgentMeter:
        meter = AgentMeter(self.budget_tracker, self.agent, self.own, self.caller, bounded=self.bounded)
        meter._known, meter._context = self._known, self._context
        meter._cached, meter._at = self._cached, self._at
        return meter

    def _counted(self, reply: Reply) -> Usage:
        """Return the usage that counts for caps: the service's figures, or estimates by bytes where it has none."""
        usage = reply.usage
        if (
            self._sent is None
            or reply.stop_reason == INTERRUPTED
            or (usage.prompt_tokens and (usage.output_tokens or not reply.content))
        ):
            return usage
        card, tokens_in = self._sent
        if not usage.prompt_tokens:
            usage = Usage(tokens_in, usage.output_tokens, requests=usage.requests)
        if not usage.output_tokens:
            usage = replace(usage, output_tokens=written_tokens(len(encode(reply.content))))
        return price_usage(card, usage)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

    def _task_now(self) -> str:
        return self.caller._task_now() if self.caller is not None else self.budget_tracker.task_of(self.agent)

    @property
    def _owner(self) -> str:
        """The lead or the member that the agent works for."""
        return self.agent if self.caller is None else self.caller._owner

    def _scopes(self) -> Sequence[Scope]:
        """Return the scopes of the next call: the agent's, its callers', its task's and the run's."""
        found = [self.budget_tracker.run]
        if self.bounded and (task := self.budget_tracker.task_scope(self._task)) is not None:
            found.append(task)
        meter: AgentMeter | None = self
        while meter is not None:
            found += [meter.own] if meter.own is not None else []
            meter = meter.caller
        return found

    def _estimate(self, request: Request, card: ModelCard) -> Estimate:
        fresh = self._fresh(request)
        known = self._context
        warm = self._cached if monotonic() - self._at < CACHE_S else 0
        read = min(warm, known)
        prompt = price_usage(card, Usage(input_tokens=known - read + fresh, cache_read=read))
        new = known - read + fresh
        hour = new if request.prefix.wants_hour_cache else 0
        written = Usage(cache_read=read, cache_write=new, cache_write_hour=hour)
        written = price_usage(card, written) if card.caching else prompt
        out = min(self._longest(request.prefix, card), OUTPUT_HELD)
        both = price_usage(card, Usage(input_tokens=known - read + fresh, cache_read=read, output_tokens=out))
        usd_in = max(prompt.usd or 0.0, written.usd or 0.0)
        return Estimate(known + fresh, out, usd_in, (both.usd or 0.0) - (prompt.usd or 0.0))

    def _fresh(self, request: Request) -> int:
        """Return the tokens of messages since the last call, all of them before the first. The agent's answers are
        excluded.
        """
        items = request.items
        if self._context and len(items) >= self._known:
            return sum(message_tokens(item) for item in items[self._known :] if not item.startswith(_ANSWER))
        self._context = self._cached = 0
        return request.prefix.size // BYTES_PER_TOKEN + sum(map(message_tokens, items))

    def _longest(self, prefix: Prefix, card: ModelCard) -> int:
        """Return the maximum answer, in tokens, that a request with this prefix asks for."""
        if self._most is None or self._most[0] != prefix.digest:
            self._most = prefix.digest, answer_tokens(prefix, card.max_output_tokens)
        return self._most[1]


class Meters:
    """The meters of the agents of a session: lead, members and sub-agents."""

    def __init__(self, budget_tracker: BudgetTracker) -> None:
        self.budget_tracker = budget_tracker
        self._lead = AgentMeter(budget_tracker, LEAD, bounded=False)
        self._members: dict[str, AgentMeter] = {}
        self._below: WeakValueDictionary[str, AgentMeter] = WeakValueDictionary()

    def lead(self) -> AgentMeter:
        """Return the lead's meter. The run's caps apply to the lead, and no task's caps do."""
        return self._lead

    def member(self, name: str, budget: Budget, worked_s: Clock, *, is_resumed: bool) -> AgentMeter:
        """Create a member's meter for one incarnation. `worked_s` returns its working time in seconds.

        With `is_resumed` the incarnation began in an earlier process.
        """
        own = self.budget_tracker.agent_scope(name, budget, lambda: worked_s() / 60, is_resumed=is_resumed)
        meter = self._members[name.lower()] = AgentMeter(self.budget_tracker, name, own)
        return meter

    def subagent(self, id: str, caller: str, budget: Budget, worked_s: Clock) -> AgentMeter:
        """Create a sub-agent's meter, for all its runs. Its usage also counts for its caller, which may be a
        sub-agent.
        """
        own = self.budget_tracker.subagent_scope(id, budget, lambda: worked_s() / 60)
        above = self._below.get(caller) or self._members.get(caller.lower(), self._lead)
        meter = self._below[id] = AgentMeter(self.budget_tracker, id, own, above)
        return meter


async def ask_beside(
    model: Model,
    request: Request,
    budget_tracker: BudgetTracker,
    emit: Emit,
    priced: Callable[[Reply], Reply] | None = None,
) -> Reply:
    """Return the answer to a request beside the conversation of its agent, booked for that agent.

    `emit` writes the usage to the event log, so that later processes and `cost` know it, with the request's purpose.
    `priced` adds costs that the usage of an answer lacks. Raises LimitExceeded when a cap is spent, TeamRefused
    (`model-failed`) when the model fails.
    """
    meter = AgentMeter(budget_tracker, request.agent_name, bounded=False)
    refusal = await meter.reserve(request, model.card)
    if refusal is not None:
        raise LimitExceeded("limit", refusal.reason or f"the cap on {refusal.limit} is spent", note="nothing was sent")
    answer: Reply | Failure | None = None
    try:
        async for part in model.stream(request):
            if isinstance(part, Reply):
                answer = part if priced is None else priced(part)
            elif isinstance(part, Failure):
                answer = part
    finally:
        task = meter.settle(answer)
        for event in _usage_events(request.agent_name, answer, model.card.wire, task, request.purpose):
            emit(event)
    if isinstance(answer, Reply):
        return answer
    raise TeamRefused("model-failed", answer.sentence if answer is not None else "the model gave no answer")


def _usage_events(
    agent: str, answer: Reply | Failure | None, wire: str, task: str, purpose: str
) -> Iterator[ModelCallEnded]:
    """Yield the events of a call beside the conversation: for its failed attempts, and for its answer."""
    failed = NO_USAGE if answer is None else answer.failed_usage
    if failed.requests:
        model = answer.model if isinstance(answer, Reply) else wire
        yield ModelCallEnded(member=agent, usage=failed, model=model, tools=0, task=task, aside=FAILED_ATTEMPTS)
    if isinstance(answer, Reply):
        yield ModelCallEnded(
            member=agent,
            usage=answer.usage,
            model=answer.model,
            tools=0,
            task=task,
            aside=purpose,
            counted=ESTIMATED_COUNT if answer.is_estimated else "",
            seconds=answer.seconds,
            first_part_s=answer.first_part_s,
            end=answer.end,
            request_id=answer.request_id,
        )
