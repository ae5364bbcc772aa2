"""Model calls beside an agent's work: its conversation and one more message, answered once, which it does not remember.

The request begins with the bytes of the agent's last request, so the service reads them from its cache. Calls in the
answer do not run. `ask_aside` asks in the agent's place, while it does nothing else; `fork_for_side_call` returns a
copy of a working agent, which can be asked at the same time: it has another meter and activity.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.activity_monitor import AgentActivity
from teamwright.agent.agent import Agent
from teamwright.agent.model_call import answer_failure, send_request
from teamwright.models.model import ENDS, BudgetRefusal, Failure, Prefix, Reply, Request
from teamwright.models.request_prefix import with_answer_limit
from teamwright.protocol.messages import Block, encode, message_text, text_block
from teamwright.protocol.usage import Usage


class SideAnswer(Struct, frozen=True):
    """The answer to a question besides the agent's work. `failure` says why there is none; `refusal` is a budget's."""

    content: Sequence[Block] = ()
    usage: Usage = field(default_factory=Usage)
    failure: Failure | None = None
    refusal: BudgetRefusal | None = None

    @property
    def text(self) -> str:
        """The text of the answer. Its calls do not run."""
        return message_text(self.content).strip()

    @property
    def why_none(self) -> str:
        """The reason why there is no text, in a sentence; empty when there is one."""
        if self.text:
            return ""
        if self.refusal is not None:
            return self.refusal.reason or f"the cap on {self.refusal.limit} is spent"
        if self.failure is not None:
            return self.failure.sentence
        return "the model answered with tool calls instead of a text" if self.content else "the model wrote nothing"


async def ask_aside(
    agent: Agent,
    directive: str,
    purpose: str,
    items: Sequence[bytes] | None = None,
    *,
    prefix: Prefix | None = None,
) -> SideAnswer:
    """Return one answer to the directive after the agent's conversation, in which every call must have a result.

    `purpose` is its name in events, in budgets and in the cost. `items` replace the conversation's messages when it no
    longer fits, `prefix` the agent's. A cancel closes the connection and changes nothing.
    """
    history = agent.conversation.items if items is None else items
    last = encode({"role": "user", "content": [text_block(directive)]})
    request = Request(prefix or agent.prefix, (*history, last), agent.name, purpose)
    answer, task = await send_request(agent, request)
    match answer:
        case Reply():
            agent.report_model_call(answer, 0, task, aside=purpose)
            usage = answer.usage + answer.failed_usage
            row = ENDS[answer.end]
            if row.is_failure and not row.retries:  # refused, filtered or unknown: the text is not an answer
                return SideAnswer(usage=usage, failure=answer_failure(answer, agent.model.card))
            return SideAnswer(answer.content, usage)
        case Failure():
            return SideAnswer(usage=answer.failed_usage, failure=answer)
        case _:
            return SideAnswer(refusal=answer)


def fork_for_side_call(agent: Agent, max_tokens: int) -> Agent:
    """Return a copy of the agent for one side call, whose answer has at most so many tokens.

    Its conversation is the agent's of this moment: calls that still run have a result that says so. Nothing that the
    copy does changes the agent or its transcript; its usage is charged to the agent.
    """
    conversation = agent.conversation.copy_for_side_call()
    conversation.replace_prefix(with_answer_limit(agent.prefix, max_tokens))
    return replace(
        agent,
        conversation=conversation,
        meter=agent.meter.beside(),
        activity=AgentActivity(),
        fallback=None,
        wants_hour_cache=bool,
        searched_refused_tools=True,
    )
