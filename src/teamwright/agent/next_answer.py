"""The next answer of an agent's model, with the compaction that it needs before.

Depends on the model call and on compaction.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.compaction.compact import CONTEXT_FULL, NOTHING_TO_FOLD, answer_request, compact, is_due
from teamwright.agent.compaction.compaction_state import AUTO, CompactResult
from teamwright.agent.compaction.context_size import measure_context
from teamwright.agent.model_call import CallOutcome, call_model
from teamwright.models.model import BudgetRefusal, Failure
from teamwright.protocol.usage import NO_USAGE, Usage


class ModelAnswer(Struct, frozen=True):
    """A model's answer, the task that it was charged to, and the usage of compactions and failed models before it."""

    answer: CallOutcome
    task: str = ""
    usage_before: Usage = NO_USAGE


async def next_answer(agent: Agent) -> ModelAnswer:
    """Return the next answer.

    The conversation is compacted first when that is due, and once when the window is full. A failure of a model that
    is not available is followed by calls of the fallback models, in order.
    """
    answered = await _next_answer(agent)
    while isinstance(failure := answered.answer, Failure) and await _use_fallback(agent, failure):
        before = answered.usage_before + failure.failed_usage
        answered = await _next_answer(agent)
        answered = replace(answered, usage_before=before + answered.usage_before)
    return answered


async def _use_fallback(agent: Agent, failure: Failure) -> bool:
    """Make the next call with a fallback model, if the model that failed is not available. Return False otherwise."""
    return agent.fallback is not None and failure.is_unavailable and await agent.fallback.switch(agent, failure)


async def _next_answer(agent: Agent) -> ModelAnswer:
    """Return the next answer of the agent's present model."""
    agent.apply_deferred_changes()
    if agent.model_calls_left == 0:
        return ModelAnswer(*await call_model(agent))
    compaction_usage = NO_USAGE
    if agent.compaction.request is not None:
        compaction_usage += (await answer_request(agent, agent.compaction.request)).usage
    elif is_due(agent):
        compaction_usage += (await compact(agent, AUTO)).usage
    outcome, task = await call_model(agent)
    if isinstance(outcome, Failure) and outcome.slug == CONTEXT_FULL:
        compacted = await compact(agent, AUTO, full=True)
        compaction_usage += compacted.usage
        if compacted.done:
            outcome, task = await call_model(agent)
        outcome = _explain_full(agent, outcome, compacted)
    return ModelAnswer(outcome, task, compaction_usage)


def _explain_full(agent: Agent, outcome: CallOutcome, compacted: CompactResult) -> CallOutcome:
    """Return the outcome for a conversation that was full: the next answer, or the reason why compaction failed."""
    if not compacted.done and compacted.limit:
        return BudgetRefusal(compacted.limit, compacted.why)
    if not compacted.done and compacted.failure is not None and compacted.failure.slug != CONTEXT_FULL:
        return compacted.failure  # the service may be available later
    if not isinstance(outcome, Failure) or outcome.slug != CONTEXT_FULL:
        return outcome
    name = agent.model.card.name
    tokens = f"{measure_context(agent.conversation, agent.compaction):,} tokens by our count"
    if compacted.done or compacted.why == NOTHING_TO_FOLD:
        even = ", even after compaction" if agent.conversation.is_compacted else ""
        what = f"the last message does not fit into the window of {name}{even}: {tokens}"
    else:
        what = f"the conversation no longer fits into the window of {name} and could not be compacted: {compacted.why}"
    do = ("put what is long into a file and name the file", "use a model with a larger window")
    return replace(outcome, what=what, do=do)
