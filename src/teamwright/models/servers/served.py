"""What the local server behind a model tells of it: its window, and what else it has. Never asked of other services.

A server may know the window only once the model is loaded, that is after the first answer: until it has told, it is
asked again after each, a few times. Each question is bounded in time. Below: `asking`.
"""

from __future__ import annotations

import asyncio

from teamwright.models.endpoint import Endpoint
from teamwright.models.facts import is_set, with_server
from teamwright.models.model import Failure, ModelCard, Request

ASKED_MOST = 3
"""How often a server is asked for a window of which it does not tell."""


class Served:
    """One model of a server of the user's own, by the server's word. `window` is in tokens, None until it told."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._left = 0
        self.window: int | None = None

    async def opened(self, card: ModelCard) -> ModelCard:
        """Before the first request: the card with what the server tells. A window by the user's word is kept."""
        if not self._endpoint.own:
            return card
        card = await self._asked(card)
        presets_only = self._endpoint.provider in _TELLS_LATER
        self._left = ASKED_MOST if presets_only and self.window is None and not is_set(card, "context_tokens") else 0
        return card

    async def answered(self, card: ModelCard) -> ModelCard:
        """After an answer: the card with the window that the server tells now."""
        if self.window is not None or self._left <= 0:
            return card
        self._left -= 1
        return await self._asked(card)

    async def widened(self, card: ModelCard) -> ModelCard:
        """After a prompt that did not fit: the server may have been started again with a larger window."""
        if not self._endpoint.own or self.window is None:
            return card
        self._left = ASKED_MOST
        return await self._asked(card)

    async def _asked(self, card: ModelCard) -> ModelCard:
        from teamwright.models.servers import asking

        told = await asyncio.to_thread(asking.ask_server, self._endpoint, card.wire)
        self.window = None if is_set(card, "context_tokens") else told.window
        return with_server(card, told)

    async def told(self, failure: Failure, card: ModelCard) -> Failure:
        """A failure, with what the server has instead where it does not have the model."""
        if failure.slug != "unknown-model" or not self._endpoint.own:
            return failure
        from teamwright.models.failure import with_served
        from teamwright.models.servers.asking import Unanswered, served_models

        try:
            names = await asyncio.to_thread(served_models, self._endpoint)
        except Unanswered:
            return failure
        return with_served(failure, names, card)

    def lacks_room(self, request: Request) -> int:
        """How many tokens stand before the conversation, where the window has not even room for these; else 0."""
        head = len(request.prefix.head) // 4
        return head if self.window is not None and head > self.window else 0


_TELLS_LATER = frozenset({"ollama", "lmstudio"})
"""Servers that know the window only once the model is loaded."""
