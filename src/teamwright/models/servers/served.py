"""What the local server behind a model tells of it: its window, and what else it has. Never asked of other services.

A server may know the window only once the model is loaded, that is after the first answer: until it has told, it is
asked again after each, a few times. Each question is bounded in time. Below: `local`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Failure, ModelCard, Request

ASKED_MOST = 3
"""How often a server is asked for a window of which it does not tell."""


class Served:
    """One model of a local server, by the server's own word. `window` is in tokens, None until it told."""

    def __init__(self, endpoint: Endpoint, *, window: int | None = None, ask: bool = True) -> None:
        """`ask`: False where the user knows the window better, and for services that are not local."""
        self._endpoint = endpoint
        self._left = ASKED_MOST if ask and endpoint.local else 0
        self.window = window

    async def answered(self, card: ModelCard) -> ModelCard:
        """After an answer: the card with the window that the server tells now."""
        if self.window is not None or self._left <= 0:
            return card
        from teamwright.models.local import ask_window

        self._left -= 1
        self.window = await asyncio.to_thread(ask_window, self._endpoint, card.wire)
        return replace(card, context_tokens=self.window) if self.window else card

    async def widened(self, card: ModelCard) -> ModelCard:
        """After a prompt that did not fit: the server may have been started anew with a larger window."""
        if not self._endpoint.local or self.window is None:
            return card
        from teamwright.models.local import ask_window

        self.window, self._left = await asyncio.to_thread(ask_window, self._endpoint, card.wire), ASKED_MOST
        return replace(card, context_tokens=self.window) if self.window else card

    async def told(self, failure: Failure, card: ModelCard) -> Failure:
        """A failure, with what the server has instead where it does not have the model."""
        if failure.slug != "unknown-model" or not self._endpoint.local:
            return failure
        from teamwright.models.failure import with_served
        from teamwright.models.local import served_names

        names = await asyncio.to_thread(served_names, self._endpoint)
        return failure if names is None else with_served(failure, names, card)

    def lacks_room(self, request: Request) -> int:
        """How many tokens stand before the conversation, where the window has not even room for these; else 0."""
        head = len(request.prefix.head) // 4
        return head if self.window is not None and head > self.window else 0
