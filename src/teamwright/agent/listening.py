"""One model call of an agent: room in the budget first, then the stream, whose last part is the answer.

Text goes to surfaces as it comes, usage to the meter. Knows the agent and the contract of a model; knows no tool, and
does not know what a call is for.
"""

from __future__ import annotations

import re
import time
import uuid
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias

from teamwright.agent.agent import Agent
from teamwright.agent.guards.cut_short import SoFar, keep_cut_short, keep_failed
from teamwright.models.model import Alive, Failure, Refusal, Reply, Request, Retrying, TextPart, priced
from teamwright.protocol.blocks import Block, text_of, tool_calls, with_own_ids
from teamwright.protocol.events import Notice, TextDelta

Heard: TypeAlias = Reply | Failure | Refusal

CALL_AS_TEXT = re.compile(
    r"^\s*(?:<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call)"
    r"|^\s*(?:```(?:json)?\s*)?\{\s*\"name\"\s*:\s*\"\w+\"\s*,\s*\"(?:arguments|parameters)\"\s*:",
    re.M,
)
"""How models write calls that their server should have taken out of the text."""


async def listen(agent: Agent) -> tuple[Heard, str]:
    """The next answer of the conversation; and the task that it was booked to."""
    if agent.rounds_left == 0:
        return Refusal("turns", ""), ""
    return await ask(agent, Request(agent.prefix, agent.conversation.items, agent.name))


async def ask(agent: Agent, request: Request) -> tuple[Heard, str]:
    """The answer to a request, when the budget has room for it; and the task that it was booked to.

    The text of one that is asked `aside` is not shown. The text of an answer that is cut short is stored and
    booked. The text of an answer to a prompt that the server cut is not stored: it answers another prompt.
    """
    agent.activity.pauses("room in the budget")
    if (refusal := await agent.meter.reserve(request, agent.model.card)) is not None:
        return refusal, ""
    so_far = SoFar()
    try:
        try:
            answer = await _heard(agent, request, so_far)
        except BaseException:
            keep_cut_short(agent, request, so_far)
            raise
        if isinstance(answer, Failure) and not request.aside and answer.slug != "window-too-small":
            answer = so_far.failed(agent, answer)
            keep_failed(agent, answer)
        task = agent.meter.settle(answer)
        agent.lost_tries(answer, task)
        return answer, task
    finally:
        agent.meter.settle(None)


async def _heard(agent: Agent, request: Request, so_far: SoFar) -> Reply | Failure:
    activity, tags, held = agent.activity, agent.tags, ""
    activity.asks_model(agent.model.card.name)
    asked_at = time.monotonic()
    async with aclosing(agent.model.stream(request)) as parts:
        async for part in parts:
            activity.hears()
            so_far.take(part)
            match part:
                case TextPart():
                    if agent.attended() and not request.aside:
                        shown, held = tags.masked_part(held + part.text)
                        _show(agent, shown)
                case Reply():
                    _show(agent, held)
                    took = int((time.monotonic() - asked_at) * 1000)
                    reply = replace(priced(agent.model.card, part), id=part.id or f"msg_{uuid.uuid4().hex}", ms=took)
                    content = tags.masked(with_own_ids(reply.content))
                    if content != reply.content:
                        reply = replace(reply, content=content)
                    return reply
                case Failure():
                    return priced(agent.model.card, part)
                case Retrying():
                    held = ""
                    wait = f"{part.wait_s:.0f} s" if part.wait_s >= 1 else "now"
                    agent.emit(Notice(member=agent.name, text=f"{part.reason}; trying again: {wait}", level="warning"))
                    activity.pauses(f"another try: {part.reason}")
                case Alive(waits_for=waits_for) if waits_for:
                    activity.pauses(waits_for)
                case _:
                    pass
    return Failure("model-failed", f"the stream of {agent.model.card.name} ended without a Reply or a Failure")


def _show(agent: Agent, text: str) -> None:
    if text:
        agent.emit(TextDelta(member=agent.name, text=text))


def is_call_as_text(content: list[Block]) -> bool:
    """Return whether an answer without calls holds one in its text."""
    return not tool_calls(content) and CALL_AS_TEXT.search(text_of(content)) is not None


CALL_NOTE = (
    "You wrote a tool call as text, and nothing was called. Make the call again as a tool call, in the form that your "
    "tools are given in; write no call into the text."
)
"""The note for a model whose call came as text, once a turn."""


def warn_of_call_as_text(agent: Agent) -> None:
    """Tell the user that a call came as text again: nothing was called, and the turn ends as if the agent were done."""
    name = agent.model.card.name
    text = (
        "it wrote a tool call as text, and nothing was called. Its server does not take calls out of the text "
        "(llama-server --jinja; vllm serve --enable-auto-tool-choice --tool-call-parser NAME), or the model is not "
        f"made for tools. To try it: teamwright doctor --live --model {name}"
    )
    agent.emit(Notice(member=agent.name, text=text, level="warning"))
