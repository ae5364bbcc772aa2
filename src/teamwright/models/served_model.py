"""What the local server behind a model tells of it: its window, and what else it has. Never asked of other services.

A server may know the window only once the model is loaded, that is after the first answer: until it has told, it is
asked again after each, a few times. Each question is bounded in time. Below: `asking`.
"""

from __future__ import annotations

import asyncio

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Failure, ModelCard, Request
from teamwright.models.model_facts import is_set, with_server

MAX_QUERIES = 3
"""How often a server is asked for a window of which it does not tell."""


class ServedModel:
    """One model of a server of the user's own, by the server's word. `window` is in tokens, None until it told."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._queries_left = 0
        self.window: int | None = None

    async def opened(self, card: ModelCard) -> ModelCard:
        """Before the first request: the card with what the server tells. A window by the user's word is kept."""
        if not self._endpoint.own:
            return card
        card = await self._asked(card)
        presets_only = self._endpoint.provider in _TELLS_LATER
        self._queries_left = (
            MAX_QUERIES if presets_only and self.window is None and not is_set(card, "context_tokens") else 0
        )
        return card

    async def card_after_answer(self, card: ModelCard) -> ModelCard:
        """After an answer: the card with the window that the server tells now."""
        if self.window is not None or self._queries_left <= 0:
            return card
        self._queries_left -= 1
        return await self._asked(card)

    async def card_after_overflow(self, card: ModelCard) -> ModelCard:
        """After a prompt that did not fit: the server may have been started again with a larger window."""
        if not self._endpoint.own or self.window is None:
            return card
        self._queries_left = MAX_QUERIES
        return await self._asked(card)

    async def _asked(self, card: ModelCard) -> ModelCard:
        from teamwright.models import server_facts

        told = await asyncio.to_thread(server_facts.ask_server, self._endpoint, card.wire)
        self.window = None if is_set(card, "context_tokens") else told.window
        return with_server(card, told)

    async def explain_failure(self, failure: Failure, card: ModelCard) -> Failure:
        """A failure, with what the server has instead where it does not have the model."""
        if failure.slug != "unknown-model" or not self._endpoint.own:
            return failure
        from teamwright.models.failure_texts import with_served_models
        from teamwright.models.server_facts import Unanswered, served_models

        try:
            names = await asyncio.to_thread(served_models, self._endpoint)
        except Unanswered:
            return failure
        return with_served_models(failure, names, card)

    def oversized_prefix_tokens(self, request: Request) -> int:
        """How many tokens stand before the conversation, where the window has not even room for these; else 0."""
        head = len(request.prefix.head) // 4
        return head if self.window is not None and head > self.window else 0


_TELLS_LATER = frozenset({"ollama", "lmstudio"})
"""Servers that know the window only once the model is loaded."""
