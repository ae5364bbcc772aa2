"""The final answer of a run as a value: asked for with the prompt, read, and asked for once more when it does not fit.

Depends on the lead and on the form of the answer; loaded only by runs with one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.agent.conversation import UserMessage
from teamwright.agent.side_call import ask_aside
from teamwright.models.model import Reply
from teamwright.models.structured_answer import structured_prefix, structured_text
from teamwright.protocol.errors import ModelFailed, TeamwrightError
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.usage import NO_USAGE
from teamwright.session.answer_schema import MAX_PROBLEM_CHARACTERS, OutputFormat
from teamwright.teams.lead_agent import Lead

REPAIR = "Your final answer was not accepted: {why}\nAnswer again, with the JSON value alone. It must fit this schema:"

PURPOSE = "structured output"
"""The name of the bounded request in events and budgets."""


def with_request(lead: Lead, prompt: Sequence[Block], form: OutputFormat) -> Sequence[Block]:
    """Return the prompt followed by the request for this form; an empty prompt unchanged."""
    return prompt and [*prompt, lead.agent.tags.note(form.request())]


class ReadOutput(Struct, frozen=True):
    """The end of a run and its value. `error` says why there is none; both are empty when the run is not done."""

    end: TurnEnd
    value: Any = None
    error: TeamwrightError | None = None


async def read_output(
    lead: Lead, tasks_open: Callable[[], Awaitable[bool]], end: TurnEnd, form: OutputFormat
) -> ReadOutput:
    """Read the value of the final answer. When it does not fit, the lead is asked once more.

    The second answer is bounded by the service where it can do that; else the schema is in the words alone.
    """
    why = ""
    for is_repaired in (False, True):
        if is_repaired:
            request = form.request(REPAIR.format(why=why))
            bounded = await _ask_bounded(lead.agent, request, end, form)
            if bounded is None:
                lead.add_prompt([lead.agent.tags.note(request)])
                bounded = await lead.run_until_done(tasks_open)
            end = bounded
        if end.stop != "done":
            return ReadOutput(end)
        try:
            text, value = form.read(end.text)
        except ValueError as problem:
            why = str(problem)
        else:
            return ReadOutput(replace(end, text=text), value)
    what = f"the final answer does not fit the schema, also after a second request: {why[:MAX_PROBLEM_CHARACTERS]}"
    return ReadOutput(end, error=ModelFailed("invalid-output", what))


async def _ask_bounded(agent: Agent, request: str, end: TurnEnd, form: OutputFormat) -> TurnEnd | None:
    """Return the end of the turn with an answer that the service has bounded by the schema; None where it cannot.

    The request and its answer become a part of the conversation.
    """
    prefix = structured_prefix(agent.model, agent.prefix, form.schema)
    if prefix is None or end.stop != "done":
        return None
    answer = await ask_aside(agent, request, PURPOSE, prefix=prefix)
    text = structured_text(answer.content, form.schema)
    if not text:
        return None
    agent.conversation.append_user_message(UserMessage((agent.tags.note(request),)))
    reply = Reply([text_block(text)], "end_turn", NO_USAGE, agent.model.card.wire)
    agent.conversation.append_reply(reply)
    agent.emit_message("assistant", reply.content, reply)
    return replace(end, text=text, usage=end.usage + answer.usage, model_calls=end.model_calls + 1)
