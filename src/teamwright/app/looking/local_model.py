"""What `doctor` says of a model on this machine: whether its server answers, has it, and has a window for a team.

Asks that server only, for a moment; sends no prompt. Knows `models.local`; chooses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.app.looking.finding import Finding
from teamwright.models.endpoint import Endpoint
from teamwright.models.local import ask_window, served_names
from teamwright.models.model import ModelCard
from teamwright.models.servers.ways import ROOM, to_get, to_start, to_widen
from teamwright.models.settings import ModelSettings

ANY_NAME = frozenset({"llamacpp", "lmstudio"})
"""Servers that answer to other names than those that they list: with what they have loaded, or by loading it."""
SHOWN = 3


def of_local_model(card: ModelCard, endpoint: Endpoint, settings: ModelSettings) -> Iterator[Finding]:
    """Its server, whether that has the model, and the window."""
    names = served_names(endpoint)
    if names is None:
        start = to_start(endpoint.provider)
        yield Finding("model", "server", f"nobody answers at {endpoint.where}", "problem", start)
    elif card.wire not in names and f"{card.wire}:latest" not in names and card.provider not in ANY_NAME:
        has = f"it has {', '.join(names[:SHOWN])}" if names else "it has no models"
        what = f"{endpoint.where} does not have {card.wire}; {has}"
        yield Finding("model", "server", what, "problem", to_get(endpoint.provider, card.wire))
    else:
        yield Finding("model", "server", "answers" if card.provider in ANY_NAME else "answers, and has the model")
    yield _window(card, endpoint, settings)


def _window(card: ModelCard, endpoint: Endpoint, settings: ModelSettings) -> Finding:
    if settings.context_tokens:
        return Finding("model", "window", f"{card.context_tokens:,} tokens, by your settings")
    told = ask_window(endpoint, card.wire)
    if told is None:
        later = f"{card.context_tokens:,} tokens are taken for it until the server tells, once the model is loaded"
        return Finding("model", "window", later)
    if told < ROOM // 2:
        few = f"{told:,} tokens, by the server's own word: little for one agent, too little for a team"
        return Finding("model", "window", few, "note", to_widen(endpoint.provider, card.wire, told // 2))
    return Finding("model", "window", f"{told:,} tokens, by the server's own word")
