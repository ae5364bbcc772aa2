"""Tools that a service refuses: after a refused request the tools of other makers are tried in halves, once.

A service checks the schemas of all tools, and one that it does not take fails every request of the conversation. Its
error names no tool. Each try is a short request with a few tools and one word.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from teamwright.agent.agent import Agent
from teamwright.agent.tool import AnyTool, tool_schema
from teamwright.models.model import BudgetRefusal, Failure, Prefix, Reply, Request, with_price
from teamwright.protocol.messages import encode, text_block
from teamwright.protocol.usage import NO_USAGE, Usage

MAX_TRIES = 24
"""Requests of one search; with that many, two of 500 tools are found."""

MAX_ANSWER = 16
"""The longest answer in tokens: the smallest that all services accept."""

WAIT_REASON = "a search for the tool that the service refuses"
"""The wait reason while the tools are tried."""

_HELLO = encode({"role": "user", "content": [text_block("Hello")]})


class RefusedToolSearch:
    """A search among the tools of other makers that an agent's requests have.

    `charge` takes the usage of each try at once and returns the cap that it used up. `usage` is the sum, and `refusal`
    the cap that ended the search; None without one.
    """

    def __init__(self, agent: Agent, charge: Callable[[Usage], Awaitable[BudgetRefusal | None]]) -> None:
        self._agent = agent
        self._charge = charge
        self._tries = 0
        self.usage: Usage = NO_USAGE
        self.refusal: BudgetRefusal | None = None

    async def find(self) -> list[AnyTool]:
        """Return the tools that the service refuses, each alone. None are found where the tools are not the reason."""
        foreign = [tool for tool in self._agent.toolbox.offered_tools if tool.origin]
        self._agent.activity.start_wait(WAIT_REASON)
        return await self._search(foreign) if foreign and await self._is_refused(foreign) else []

    async def _search(self, tools: Sequence[AnyTool]) -> list[AnyTool]:
        """Return the refused tools among several that are refused together."""
        if len(tools) == 1:
            return list(tools)
        middle = len(tools) // 2
        found: list[AnyTool] = []
        for part in (tools[:middle], tools[middle:]):
            if await self._is_refused(part):
                found += await self._search(part)
        return found

    async def _is_refused(self, tools: Sequence[AnyTool]) -> bool:
        """Return True when the service refuses a short request with these tools.

        After MAX_TRIES, or when a cap is used up, it is not asked.
        """
        if self._tries == MAX_TRIES or self.refusal is not None:
            return False
        self._tries += 1
        agent = self._agent
        card = self._agent.model.card
        fields: Mapping[str, Any] = {
            "model": card.wire,
            "max_tokens": MAX_ANSWER,
            "tools": [tool_schema(tool) for tool in tools],
            **dict(card.sampling),
        }
        refused = False
        used = NO_USAGE
        async with aclosing(agent.model.stream(Request(Prefix.build(fields), [_HELLO], agent.name, "tools"))) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    reply = with_price(card, part)
                    used = reply.failed_usage + reply.usage
                elif isinstance(part, Failure):
                    used = with_price(card, part).failed_usage
                    refused = part.refuses_request
        self.usage += used
        self.refusal = await self._charge(used)
        return refused
