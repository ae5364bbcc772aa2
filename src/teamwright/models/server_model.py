"""Facts about a model from a server of the user: the window, and the other models of the server.

Other services are never asked. A server may know the window only once the model is loaded, after the first answer:
until it reports the window, it is asked again after each answer, a few times. Each query is bounded in time. Depends on
`model_server_queries`.
"""

from __future__ import annotations

import asyncio

from teamwright.models.catalog import is_set, with_server
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Failure, ModelCard, Request

MAX_QUERIES = 3
"""The number of queries for a window that a server does not report."""


class ServerModelFacts:
    """One model of a user's server, as the server reports it. `window` is in tokens, None until it is reported."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._queries_left = 0
        self.window: int | None = None

    async def card_when_opened(self, card: ModelCard) -> ModelCard:
        """Return the card with the server's facts, before the first request. A window in the user's settings is
        kept.
        """
        if not self._endpoint.own:
            return card
        card = await self._query_server(card)
        reports_later = self._endpoint.provider in _TELLS_LATER
        self._queries_left = (
            MAX_QUERIES if reports_later and self.window is None and not is_set(card, "context_tokens") else 0
        )
        return card

    async def card_after_answer(self, card: ModelCard) -> ModelCard:
        """Return the card with the window that the server reports after an answer."""
        if self.window is not None or self._queries_left <= 0:
            return card
        self._queries_left -= 1
        return await self._query_server(card)

    async def card_after_overflow(self, card: ModelCard) -> ModelCard:
        """Return the card after a prompt that did not fit: the server may have been restarted with a larger window."""
        if not self._endpoint.own or self.window is None:
            return card
        self._queries_left = MAX_QUERIES
        return await self._query_server(card)

    async def _query_server(self, card: ModelCard) -> ModelCard:
        from teamwright.models import model_server_queries

        reported = await asyncio.to_thread(model_server_queries.ask_server, self._endpoint, card.wire)
        self.window = None if is_set(card, "context_tokens") else reported.window
        return with_server(card, reported)

    async def explain_failure(self, failure: Failure, card: ModelCard) -> Failure:
        """Return a failure, with the server's models where it does not have the requested one."""
        if failure.slug != "unknown-model" or not self._endpoint.own:
            return failure
        from teamwright.models.failure_texts import with_served_models
        from teamwright.models.model_server_queries import Unanswered, served_models

        try:
            names = await asyncio.to_thread(served_models, self._endpoint)
        except Unanswered:
            return failure
        return with_served_models(failure, names, card)

    def oversized_prefix_tokens(self, request: Request) -> int:
        """Return the tokens of the prefix when it alone exceeds the window; else 0."""
        head = request.prefix.size // 4
        return head if self.window is not None and head > self.window else 0


_TELLS_LATER = frozenset({"ollama", "lmstudio"})
"""Servers that know the window only once the model is loaded."""
