"""Facts about a model from a server of the user: its window, and its features.

Queried once when the model is opened, each query bounded in time and size. Formats (seen 2026-11-23):
https://docs.ollama.com/api-reference/show-model-details, https://lmstudio.ai/docs/developer/rest/endpoints,
https://github.com/ggml-org/llama.cpp/tree/master/tools/server; vLLM and SGLang: `max_model_len` in the list.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from teamwright.models.endpoint import Endpoint

ASK_S = 2.0
"""Seconds that all queries to one server may take together."""
BODY_MOST = 512 * 1024
"""Bytes of an answer that are read."""

_WINDOWS = ("max_model_len", "loaded_context_length", "context_length", "context_window", "max_input_tokens")
"""Names of the window in the list of models of various servers."""
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)\s*$", re.M)


class ServerFacts(Struct, frozen=True):
    """Facts about one model, as its server reports them; None is not reported. `window` is in tokens.

    `slots` is how many requests the server computes at once; others wait. `progress`: the server can report how much of
    a prompt it has read.
    """

    window: int | None = None
    images: bool | None = None
    tools: bool | None = None
    thinking: bool | None = None
    slots: int | None = None
    progress: bool | None = None

    def or_else(self, other: ServerFacts) -> ServerFacts:
        """Return these facts, completed with those of another answer."""
        names = self.__struct_fields__
        return ServerFacts(*(mine if (mine := getattr(self, n)) is not None else getattr(other, n) for n in names))


NOTHING = ServerFacts()


class Unanswered(Exception):
    """A query without a JSON object as answer; its text gives the reason."""


class Server:
    """The server of an endpoint, queried for JSON until a deadline. Blocking."""

    def __init__(self, endpoint: Endpoint, within_s: float) -> None:
        self._endpoint = endpoint
        self._deadline = time.monotonic() + within_s

    @property
    def root(self) -> str:
        """The path before the version of the API."""
        return urlsplit(self._endpoint.base_url).path.removesuffix("/v1")

    def listing(self) -> list[dict[str, Any]]:
        """Return the rows of its list of models. Raises `Unanswered`."""
        path = "/v1/models" if self._endpoint.api == "messages" else "/models"
        rows: object = self.ask(urlsplit(self._endpoint.base_url).path + path).get("data", 0)
        if not isinstance(rows, list | None):
            raise Unanswered("it lists no models")
        return [cast("dict[str, Any]", row) for row in cast("list[object]", rows or []) if isinstance(row, dict)]

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON object at a path, by POST where there is a body. Raises `Unanswered`."""
        parts = urlsplit(self._endpoint.base_url)
        left = self._deadline - time.monotonic()
        host = parts.hostname or ""
        if left <= 0:
            raise Unanswered("no answer in time")
        if not self._endpoint.is_on_this_machine and parts.scheme in getproxies() and not proxy_bypass(host):
            raise Unanswered("a proxy is in between")
        kind = http.client.HTTPSConnection if self._endpoint.uses_tls else http.client.HTTPConnection
        connection = kind(host, parts.port, timeout=left)
        query = f"?{self._endpoint.query}" if self._endpoint.query else ""
        try:
            method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
            connection.request(method, path + query, data, dict(self._endpoint.headers()))
            response = connection.getresponse()
            read = response.read(BODY_MOST)
            if response.status != 200:
                raise Unanswered(f"HTTP status {response.status}")
            parsed: object = json.loads(read)
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as problem:
            raise Unanswered(str(problem) or type(problem).__name__) from None
        finally:
            connection.close()
        if not isinstance(parsed, dict):
            raise Unanswered("the answer is no JSON object")
        return cast("dict[str, Any]", parsed)


def ask_server(endpoint: Endpoint, wire: str, *, within_s: float = ASK_S) -> ServerFacts:
    """Query the server of a model for its facts. Blocking; unknown where the server is not the user's, or does not
    answer."""
    if not endpoint.own:
        return NOTHING
    server = Server(endpoint, within_s)
    known = NOTHING
    for way in _WAYS.get(endpoint.provider, _ALL if endpoint.near else (_listed,)):
        try:
            known = known.or_else(way(server, wire))
        except Unanswered:
            continue
        if known.window is not None:
            break
    return known


def served_models(endpoint: Endpoint) -> list[str]:
    """Return the names of the models that a user's server lists. Blocking. Raises `Unanswered`."""
    return [str(row["id"]) for row in Server(endpoint, ASK_S).listing() if "id" in row]


def _listed(server: Server, wire: str) -> ServerFacts:
    """Query vLLM, SGLang, gateways: the window in the list of models."""
    row = _row(server.listing(), "id", wire)
    return ServerFacts(next((found for name in _WINDOWS if (found := _tokens(row.get(name)))), None))


def _llamacpp(server: Server, wire: str) -> ServerFacts:
    """Query llama.cpp: the window of a slot, the number of slots, and the features of model and template.

    Only llama.cpp has this answer with these fields, so it is known by them under any name of a provider.
    """
    props = server.ask(server.root + "/props")
    slots = _tokens(props.get("total_slots"))
    settings, kinds = _inner(props, "default_generation_settings"), _inner(props, "modalities")
    template = _inner(props, "chat_template_caps")
    return ServerFacts(
        _tokens(settings.get("n_ctx")),
        _flag(kinds.get("vision")),
        _flag(template.get("supports_tools")),
        slots=slots,
        progress=True if slots and settings else None,
    )


def _ollama(server: Server, wire: str) -> ServerFacts:
    """Query Ollama: the features of the model; its window once it is loaded, or as its file sets it."""
    try:
        description = server.ask(server.root + "/api/show", {"model": wire})
    except Unanswered:
        description = dict[str, Any]()
    able = description.get("capabilities")
    can = cast("list[object]", able) if isinstance(able, list) else None
    loaded: object = server.ask(server.root + "/api/ps").get("models")
    rows = [cast("dict[str, Any]", row) for row in cast("list[object]", loaded or []) if isinstance(row, dict)]
    row = _row(rows, "name", wire) or _row(rows, "name", f"{wire}:latest")
    set_in_file = _NUM_CTX.search(str(description.get("parameters") or ""))
    window = _tokens(row.get("context_length")) or (int(set_in_file[1]) if set_in_file else None)
    if can is None:
        return ServerFacts(window)
    return ServerFacts(window, "vision" in can, "tools" in can, "thinking" in can)


def _lmstudio(server: Server, wire: str) -> ServerFacts:
    """Query LM Studio: the window once the model is loaded, and the features of the model."""
    rows: object = server.ask(server.root + "/api/v0/models").get("data")
    row = _row([cast("dict[str, Any]", r) for r in cast("list[object]", rows or []) if isinstance(r, dict)], "id", wire)
    can = row.get("capabilities")
    tools = "tool_use" in cast("list[object]", can) if isinstance(can, list) else None
    return ServerFacts(
        _tokens(row.get("loaded_context_length")), row["type"] == "vlm" if "type" in row else None, tools
    )


_ALL = (_listed, _llamacpp, _ollama, _lmstudio)
_WAYS: Mapping[str, tuple[Callable[[Server, str], ServerFacts], ...]] = {
    "ollama": (_ollama,),
    "lmstudio": (_lmstudio,),
    "llamacpp": (_llamacpp,),
    "vllm": (_listed,),
    "sglang": (_listed,),
}
"""The queries for each preset's server; a server of another name on this network receives all of them."""


def _row(rows: list[dict[str, Any]], key: str, wire: str) -> dict[str, Any]:
    return next((row for row in rows if row.get(key) == wire), dict[str, Any]())


def _inner(parsed: Mapping[str, Any], key: str) -> dict[str, Any]:
    found: object = parsed.get(key)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
