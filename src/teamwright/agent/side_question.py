"""Side questions of a person: the agent answers from what it knows, and its work continues without a trace of them."""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.side_call import ask_aside, fork_for_side_call
from teamwright.protocol.errors import LimitExceeded, TeamRefused, UsageError
from teamwright.protocol.events import SideCallEnded

SIDE_QUESTION = "side question"
"""The purpose of the call in events, in budgets and in the cost."""

MAX_ANSWER_TOKENS = 4_000
"""The longest answer to a side question, in tokens."""

MAX_QUESTION = 20_000
"""The longest question, in characters."""

NOTE = (
    "The user asks a question in passing. Answer it from what you know now, briefly, in text alone: no tool runs. Your "
    "work continues as it was, and you will remember neither the question nor your answer."
)


async def ask_side_question(agent: Agent, question: str, by: str) -> str:
    """Return the agent's answer to a question of the person. It may be asked while the agent works.

    `by` names who asked, for the event. Neither the conversation nor the transcript changes; the usage is charged to
    the agent. A cancel ends the call. Raises UsageError for an empty or too long question, LimitExceeded when a cap is
    spent, TeamRefused (`model-failed`) when the model gives no answer.
    """
    question = question.strip()
    if not question:
        raise UsageError("usage", "the question is empty", do=["/btw which files have you changed so far?"])
    if len(question) > MAX_QUESTION:
        what = f"the question has {len(question):,} characters; {MAX_QUESTION:,} is the most"
        raise UsageError("usage", what, note="nothing was sent")
    asked = fork_for_side_call(agent, MAX_ANSWER_TOKENS)
    answer = await ask_aside(asked, f"{agent.tags.reminder(NOTE)}\n\n{question}", SIDE_QUESTION)
    event = SideCallEnded(
        member=agent.name, purpose=SIDE_QUESTION, question=question, text=answer.text, by=by, detail=answer.why_none
    )
    agent.emit(event)
    if answer.refusal is not None:
        raise LimitExceeded("limit", answer.why_none, note="nothing was sent")
    if not answer.text:
        raise TeamRefused("model-failed", answer.why_none, note="the agent's work is not affected")
    return answer.text
