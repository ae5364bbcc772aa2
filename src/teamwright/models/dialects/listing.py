"""What a service lists: its models, page by page, by each API's own way of saying so.

Asked for people (`teamwright models PROVIDER`), never to choose a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from teamwright.models.dialects.dialect import Event, Outgoing
from teamwright.models.dialects.meaning import listed as rows_of
from teamwright.models.endpoint import Endpoint
from teamwright.models.exchange import Clocks, get_json
from teamwright.models.providers import Provider

PAGES_MOST = 20
"""Pages of a list of models that are read."""
PAGE = 1000
"""Models that are asked for at once, where one may say so."""


async def listed(provider: Provider, endpoint: Endpoint, clocks: Clocks) -> list[str]:
    """The ids that a provider lists, in its order. Raises `Trouble`."""
    if endpoint.api == "bedrock":
        return await _of_bedrock(provider, endpoint, clocks)
    if endpoint.api == "gemini":
        return await _pages(endpoint, provider.models_path, f"pageSize={PAGE}", _of_gemini, clocks)
    query = f"limit={PAGE}" if provider.id == "anthropic" else ""
    return await _pages(endpoint, provider.models_path, query, _of_data, clocks)


async def _pages(
    endpoint: Endpoint, path: str, query: str, read: Callable[[Event], tuple[list[str], str]], clocks: Clocks
) -> list[str]:
    """The ids of all pages. `read` gives those of one, and what the query for the next one adds, or nothing."""
    ids: list[str] = []
    more = ""
    for _ in range(PAGES_MOST):
        asked = "&".join(part for part in (query, more) if part)
        page = await _page(endpoint, f"{path}?{asked}" if asked else path, clocks)
        found, more = read(page)
        ids += found
        if not more:
            break
    return ids


async def _page(endpoint: Endpoint, path: str, clocks: Clocks) -> dict[str, Any]:
    if endpoint.signing is None:
        return await get_json(endpoint, path, clocks)
    from teamwright.models.dialects.aws import keys_at, signed

    keys = await asyncio.to_thread(keys_at, endpoint)
    outgoing = Outgoing(endpoint.url(path), endpoint.headers(), b"")
    headers = signed(outgoing, keys, endpoint.signing.region, method="GET")
    return await get_json(endpoint, path, clocks, headers)


def _of_data(page: Event) -> tuple[list[str], str]:
    """The Messages API, and all that has OpenAI's shape."""
    ids = [str(row["id"]) for row in rows_of(page, "data") if "id" in row]
    more = page.get("has_more") and page.get("last_id")
    return ids, f"after_id={page['last_id']}" if more else ""


def _of_gemini(page: Event) -> tuple[list[str], str]:
    """Those that answer; embeddings and the like do not."""
    ids = [
        str(row["name"]).removeprefix("models/")
        for row in rows_of(page, "models")
        if "name" in row and "generateContent" in (row.get("supportedGenerationMethods") or ["generateContent"])
    ]
    token = page.get("nextPageToken")
    return ids, f"pageToken={quote(str(token), safe='')}" if token else ""


async def _of_bedrock(provider: Provider, endpoint: Endpoint, clocks: Clocks) -> list[str]:
    """Inference profiles, by which newer models are called, and what is served by its own id."""
    control = replace(endpoint, base_url=endpoint.base_url.replace("//bedrock-runtime.", "//bedrock."))
    profiles = await _pages(control, "/inference-profiles", f"maxResults={PAGE}", _of_profiles, clocks)
    query = "byInferenceType=ON_DEMAND&byOutputModality=TEXT"
    return profiles + await _pages(control, provider.models_path, query, _of_foundation, clocks)


def _of_profiles(page: Event) -> tuple[list[str], str]:
    ids = [str(row["inferenceProfileId"]) for row in rows_of(page, "inferenceProfileSummaries")]
    token = page.get("nextToken")
    return ids, f"nextToken={quote(str(token), safe='')}" if token else ""


def _of_foundation(page: Event) -> tuple[list[str], str]:
    return [str(row["modelId"]) for row in rows_of(page, "modelSummaries")], ""
