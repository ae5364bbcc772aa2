"""The list of models of a service, page by page, in the format of each API.

Used for people (`teamwright models PROVIDER`), never to choose a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.provider_table import Provider
from teamwright.models.providers.api_format import Event, OutgoingRequest
from teamwright.models.providers.api_format import object_list as rows_of
from teamwright.models.stream import Timeouts, get_json

MAX_PAGES = 20
"""Maximum number of pages that are read."""
PAGE_SIZE = 1000
"""Models requested for each page, where the API supports it."""


async def list_model_ids(provider: Provider, endpoint: Endpoint, clocks: Timeouts) -> list[str]:
    """Return the ids that a provider lists, in its order. Raises `ServiceError`."""
    if endpoint.api == "bedrock":
        return await _list_bedrock(provider, endpoint, clocks)
    if endpoint.api == "gemini":
        return await _pages(endpoint, provider.models_path, f"pageSize={PAGE_SIZE}", _read_gemini_page, clocks)
    query = f"limit={PAGE_SIZE}" if provider.id == "anthropic" else ""
    return await _pages(endpoint, provider.models_path, query, _read_data_page, clocks)


async def _pages(
    endpoint: Endpoint, path: str, query: str, read: Callable[[Event], tuple[list[str], str]], clocks: Timeouts
) -> list[str]:
    """Return the ids of all pages. `read` returns those of one page, and the query of the next one, or nothing."""
    ids: list[str] = []
    more = ""
    for _ in range(MAX_PAGES):
        page_query = "&".join(part for part in (query, more) if part)
        page = await _page(endpoint, f"{path}?{page_query}" if page_query else path, clocks)
        found, more = read(page)
        ids += found
        if not more:
            break
    return ids


async def _page(endpoint: Endpoint, path: str, clocks: Timeouts) -> dict[str, Any]:
    if endpoint.signing is None:
        return await get_json(endpoint, path, clocks)
    from teamwright.models.providers.bedrock import endpoint_keys, sign_request

    keys = await asyncio.to_thread(endpoint_keys, endpoint)
    outgoing = OutgoingRequest(endpoint.url(path), endpoint.headers(), b"")
    headers = sign_request(outgoing, keys, endpoint.signing.region, method="GET")
    return await get_json(endpoint, path, clocks, headers)


def _read_data_page(page: Event) -> tuple[list[str], str]:
    """Read a page of the Messages API, and of APIs of OpenAI's shape."""
    ids = [str(row["id"]) for row in rows_of(page, "data") if "id" in row]
    more = page.get("has_more") and page.get("last_id")
    return ids, f"after_id={page['last_id']}" if more else ""


def _read_gemini_page(page: Event) -> tuple[list[str], str]:
    """Read the models that generate text, without embeddings and the like."""
    ids = [
        str(row["name"]).removeprefix("models/")
        for row in rows_of(page, "models")
        if "name" in row and "generateContent" in (row.get("supportedGenerationMethods") or ["generateContent"])
    ]
    token = page.get("nextPageToken")
    return ids, f"pageToken={quote(str(token), safe='')}" if token else ""


async def _list_bedrock(provider: Provider, endpoint: Endpoint, clocks: Timeouts) -> list[str]:
    """Return inference profiles, by which newer models are called, and models that are called by id."""
    control = replace(endpoint, base_url=endpoint.base_url.replace("//bedrock-runtime.", "//bedrock."))
    profiles = await _pages(control, "/inference-profiles", f"maxResults={PAGE_SIZE}", _read_profiles_page, clocks)
    query = "byInferenceType=ON_DEMAND&byOutputModality=TEXT"
    return profiles + await _pages(control, provider.models_path, query, _read_foundation_page, clocks)


def _read_profiles_page(page: Event) -> tuple[list[str], str]:
    ids = [str(row["inferenceProfileId"]) for row in rows_of(page, "inferenceProfileSummaries")]
    token = page.get("nextToken")
    return ids, f"nextToken={quote(str(token), safe='')}" if token else ""


def _read_foundation_page(page: Event) -> tuple[list[str], str]:
    return [str(row["modelId"]) for row in rows_of(page, "modelSummaries")], ""
