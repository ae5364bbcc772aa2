"""Open models of a process: one adapter a (provider, model, credential), one governor a credential.

Also the list of what a provider serves, for people. The room's front for the assembly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from teamwright.models.catalog import aliases, known_ids, wire_is_known
from teamwright.models.dialects.listing import listed
from teamwright.models.dialects.table import dialect_of
from teamwright.models.exchange import Clocks
from teamwright.models.governor import governor_for
from teamwright.models.messages_api import MessagesApi
from teamwright.models.model import Model, ModelCard
from teamwright.models.pacing.page_name import page_of
from teamwright.models.providers import endpoint_of
from teamwright.models.resolve import providers, require_key, resolve
from teamwright.models.servers.served import Served
from teamwright.models.settings import ModelSettings
from teamwright.models.trouble import Trouble
from teamwright.protocol.errors import CannotStart, ModelFailed
from teamwright.protocol.ids import nearest

LISTED_S = 10.0
"""How long a service may take to list its models before it is believed to have one."""


class ModelPool:
    """Gives out models and closes them. An async context manager; `aclose` may be called twice."""

    def __init__(self, governors: Path | None = None) -> None:
        """`governors` is the directory in which processes share what they know of a credential's limits."""
        self._governors = governors
        self._open: dict[tuple[str, str, str], MessagesApi] = {}

    async def __aenter__(self) -> ModelPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def open_model(self, name: str | None, env: Mapping[str, str], settings: ModelSettings) -> Model:
        """The model of a name, the same object for the same one. Raises `CannotStart` as `resolve` does.

        A server of the user's own is asked once for the facts that the settings do not give.
        """
        card, endpoint = resolve(name, env, settings)
        key = (card.provider, card.wire, endpoint.fingerprint)
        if key not in self._open:
            served = Served(endpoint)
            card = await served.opened(card)
            most = providers(settings)[card.provider].requests
            governor = governor_for(endpoint.fingerprint, page_of(self._governors, endpoint), most)
            dialect = dialect_of(card, endpoint)
            model = MessagesApi(card, endpoint, governor=governor, settings=settings, dialect=dialect, served=served)
            self._open.setdefault(key, model)  # another agent may have opened it during the await
        return self._open[key]

    async def aclose(self) -> None:
        """Close all connections."""
        models, self._open = list(self._open.values()), {}
        for model in models:
            await model.aclose()


async def require_served(name: str, env: Mapping[str, str], settings: ModelSettings) -> None:
    """Raises `CannotStart` (`unknown-model`) for an id that neither we know nor its service lists.

    A service that lists nothing, or does not answer in time, is left to say so itself at the first call.
    """
    card, endpoint = resolve(name, env, settings)
    known = [*known_ids(card.provider), *(one.partition("/")[2] for one in settings.prices)]
    if card.wire in known or wire_is_known(card.provider, card.wire):
        return
    try:
        async with asyncio.timeout(LISTED_S):
            listed_ids = await list_models(card.provider, env, settings)
    except (TimeoutError, CannotStart, ModelFailed):
        return
    if not listed_ids or any(one == card.wire or one.startswith(card.wire) for one in listed_ids):
        return
    close = nearest(card.wire, [*aliases(), *listed_ids])
    raise CannotStart(
        "unknown-model",
        f'{card.provider} has no model "{card.wire}"',
        looked_at=[("asked", endpoint.base_url), ("it lists", ", ".join(listed_ids[:8]))],
        do=[f"did you mean {close}?"] if close else [f"teamwright models {card.provider} lists them"],
        note="nothing was changed",
    )


async def list_models(provider: str, env: Mapping[str, str], settings: ModelSettings | None = None) -> list[str]:
    """The ids that a provider lists, in its order. Raises `CannotStart` or `ModelFailed`."""
    settings = settings or ModelSettings()
    row = providers(settings).get(provider)
    if row is None:
        known = list(providers(settings))
        close = nearest(provider, known)
        raise CannotStart(
            "unknown-model",
            f'"{provider[:80]}" is not a provider',
            looked_at=[("providers", ", ".join(known))],
            do=[f"did you mean {close}?"] if close else ["teamwright models"],
            note="no model was called",
        )
    endpoint = endpoint_of(row, env)
    require_key(row, endpoint, provider, env)
    try:
        return await listed(row, endpoint, Clocks.of(settings, endpoint))
    except Trouble as trouble:
        card = ModelCard(f"{provider}{row.models_path}", row.models_path, provider)
        from teamwright.models.failure import failure_of

        failure = failure_of(trouble, card, endpoint, 1, answered=False)
        kind = ModelFailed if failure.slug == "model-failed" else CannotStart
        raise kind(failure.slug, failure.what, looked_at=failure.looked_at, do=failure.do) from None
