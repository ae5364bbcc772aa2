"""Asks an agent's model beside its conversation: what it would say to a directive, and nothing of it stays.

The request has the same prefix and the same history, byte for byte, and the directive last, so that a service reads it
from its cache. No tool runs, no line is written; the call is metered and told like any other. Knows how a model is
called; does not know what the answer is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from teamwright.agent.agent import Agent
from teamwright.agent.guards.asked_again import no_answer
from teamwright.agent.listening import ask
from teamwright.models.ends import ENDS
from teamwright.models.model import Failure, Refusal, Reply, Request
from teamwright.protocol.blocks import Block, encode, text_block, text_of
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Forked:
    """What a forked agent said. `failure` says why it said nothing; `refusal` is that of a budget."""

    content: Sequence[Block] = ()
    usage: Usage = field(default_factory=Usage)
    failure: Failure | None = None
    refusal: Refusal | None = None

    @property
    def text(self) -> str:
        """Its text; calls that it asked for are not run."""
        return text_of(self.content).strip()


async def run_forked_agent(agent: Agent, directive: str, what: str, items: Sequence[bytes] | None = None) -> Forked:
    """One answer to the directive, from where the agent's conversation is now; every call of it has a result.

    `what` names the purpose in events and books. `items` are other messages than the conversation's, for one that no
    longer fits. Cancelling closes the connection; nothing was changed then.
    """
    history = agent.conversation.items if items is None else items
    last = encode({"role": "user", "content": [text_block(directive)]})
    request = Request(agent.prefix, (*history, last), agent.name, aside=True)
    answer, task = await ask(agent, request)
    match answer:
        case Reply():
            agent.ended_round(answer, 0, task, aside=what)
            usage, row = answer.usage + answer.lost, ENDS[answer.end]
            if row.fails and not row.again:  # refused, filtered, unknown: its words are no answer
                return Forked(usage=usage, failure=no_answer(answer, agent.model.card))
            return Forked(answer.content, usage)
        case Failure():
            return Forked(usage=answer.lost, failure=answer)
        case _:
            return Forked(refusal=answer)
