"""Local model servers on this machine: their models and context windows.

Used for error texts and for `doctor`; never to choose a model. The response of a port is not trusted: it is bounded in
time and size, and only plain names are kept.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from teamwright.models.endpoint import is_loopback
from teamwright.models.provider_table import PROVIDERS, Provider, find_base_url

RECOMMENDED_WINDOW = 65_536
"""The recommended window in tokens: a team needs about as much."""

_SERVE = {
    "ollama": "OLLAMA_CONTEXT_LENGTH={room} ollama serve",
    "llamacpp": "llama-server -m FILE.gguf --jinja -c {room}",
    "vllm": "vllm serve {model} --max-model-len {room} --enable-auto-tool-choice --tool-call-parser NAME",
    "sglang": "sglang serve --model-path {model} --context-length {room} --tool-call-parser NAME",
    "lmstudio": "lms server start",
}
_WIDEN = {**_SERVE, "lmstudio": "lms load {model} --context-length {room}"}
_SLOTS = {
    "ollama": "OLLAMA_NUM_PARALLEL={slots} OLLAMA_CONTEXT_LENGTH={room} ollama serve",
    "llamacpp": "llama-server -m FILE.gguf --jinja --parallel {slots} -c {whole} --cache-ram {cache}",
    "lmstudio": "load the model with {slots} concurrent predictions and a window of {room} tokens",
}
"""Ways to give a server a slot for each agent. llama.cpp divides its window among the slots."""

CACHE_MIB = 8_192
"""The memory in MiB in which llama.cpp keeps the prompts that others displaced: its own default, written out."""

_GET = {
    "ollama": "ollama pull {model}",
    "lmstudio": "lms get {model}",
    "llamacpp": _SERVE["llamacpp"],
    "vllm": _SERVE["vllm"],
    "sglang": _SERVE["sglang"],
}
_FIRST = {
    "ollama": "stop the one that runs first; ",
    "llamacpp": "stop the one that runs first; ",
    "vllm": "stop the one that runs first; ",
    "sglang": "stop the one that runs first; ",
}


def start_command(provider: str) -> str:
    """Return the command that starts a server of that kind; empty for an unknown one."""
    return _SERVE.get(provider, "").format(room=RECOMMENDED_WINDOW, model="MODEL")


def get_command(provider: str, model: str = "MODEL") -> str:
    """Return the command that adds a model to it; empty for an unknown one."""
    return _GET.get(provider, "").format(room=RECOMMENDED_WINDOW, model=model)


def widen_command(provider: str, model: str, tokens: int) -> str:
    """Return the command or steps that give it a window for a conversation of `tokens` tokens."""
    room = max(RECOMMENDED_WINDOW, 2 ** (tokens * 2 - 1).bit_length())
    known = _WIDEN.get(provider)
    do = known.format(room=room, model=model) if known else f"give the server a window of {room:,} tokens"
    return f"{do}          ({_FIRST.get(provider, '')}64k or more for a team)"


def slots_command(provider: str, slots: int) -> str:
    """Return the command or step that gives it so many slots; empty for a server that needs none."""
    known = _SLOTS.get(provider, "")
    return known.format(slots=slots, room=RECOMMENDED_WINDOW, whole=RECOMMENDED_WINDOW * slots, cache=CACHE_MIB)


PROBE_S = 0.3
"""Seconds that all local servers together may take to answer."""
MAX_BODY = 512 * 1024
"""Bytes of an answer that are read."""
_NAME = re.compile(r"[\w][\w.:/@+-]{0,99}")


class LocalModel(Struct, frozen=True):
    """A model that a server lists; its window in tokens, if the server reports it."""

    id: str
    window: int | None = None


class LocalServer(Struct, frozen=True):
    """A local server that answers."""

    provider: str
    title: str
    display_address: str
    models: tuple[LocalModel, ...]

    def __str__(self) -> str:
        """Return one line for people."""
        models = [m.id + (f" (window {m.window // 1000}k)" if m.window else "") for m in self.models[:3]]
        more = f" and {len(self.models) - 3} more" if len(self.models) > 3 else ""
        return f"{self.title} on {self.display_address}: {', '.join(models) or 'no models'}{more}"


def find_local_servers(env: Mapping[str, str], *, within_s: float = PROBE_S) -> list[LocalServer]:
    """Return the preset local servers that answer on this machine, after at most `within_s` seconds in all.
    Blocking.
    """
    deadline = time.monotonic() + within_s
    found: list[LocalServer] = []
    for provider in PROVIDERS.values():
        base_url = find_base_url(provider, env)
        if provider.is_local and is_loopback(urlsplit(base_url).hostname or ""):
            models = _ask(provider, base_url, deadline)
            if models is not None:
                found.append(LocalServer(provider.id, provider.title, urlsplit(base_url).netloc, models))
    return found


def _ask(provider: Provider, base_url: str, deadline: float) -> tuple[LocalModel, ...] | None:
    parsed = _get_json(base_url, provider.models_path, deadline)
    if parsed is None or not isinstance(parsed.get("data", 0), list | None):
        return None
    windows = _windows(provider.id, base_url, deadline)
    names = _names(parsed)
    listed = listed_windows(parsed or {})
    return tuple(LocalModel(name, windows.get(name) or windows.get("") or listed.get(name)) for name in names)


def _names(listing: Mapping[str, Any]) -> list[str]:
    """Return the plain names in a list of models. Ollama without a model returns null for an empty list."""
    rows = cast("list[Any]", listing.get("data") or [])
    names = [str(cast("dict[str, Any]", row).get("id")) for row in rows if isinstance(row, dict)]
    return [name for name in names if _NAME.fullmatch(name)]


def _get_json(base_url: str, path: str, deadline: float) -> dict[str, Any] | None:
    """Return a JSON object of a loopback server, or None for any other response."""
    import http.client

    parts = urlsplit(base_url)
    left = deadline - time.monotonic()
    if left <= 0 or parts.scheme != "http":
        return None
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=left)
    try:
        connection.request("GET", parts.path + path, headers={"accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MAX_BODY)
        parsed: object = json.loads(body) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None


def listed_windows(listing: Mapping[str, Any]) -> dict[str, int]:
    """Return the windows in a list of models: vLLM and SGLang (`max_model_len`), the Claude API."""
    rows = cast("list[Any]", listing.get("data") or [])
    windows: dict[str, int] = {}
    for row in rows:
        fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        window = fields.get("max_model_len") or fields.get("max_input_tokens")
        if isinstance(window, int) and window > 0:
            windows[str(fields.get("id"))] = window
    return windows


def _windows(provider: str, base_url: str, deadline: float) -> dict[str, int]:
    """Return the windows that a server reports on a separate path, by model; the key `""` applies to all."""
    if provider == "ollama":
        return _rows(_get_json(base_url, "/api/ps", deadline), "models", "name", "context_length")
    if provider == "lmstudio":
        return _rows(_get_json(base_url, "/api/v0/models", deadline), "data", "id", "loaded_context_length")
    if provider == "llamacpp":
        props = _get_json(base_url, "/props", deadline) or {}
        settings: object = props.get("default_generation_settings")
        window = cast("dict[str, Any]", settings).get("n_ctx") if isinstance(settings, dict) else None
        return {"": window} if isinstance(window, int) and window > 0 else {}
    return {}


def _rows(parsed: dict[str, Any] | None, rows_key: str, name_key: str, window_key: str) -> dict[str, int]:
    rows: object = (parsed or {}).get(rows_key)
    windows: dict[str, int] = {}
    for row in cast("list[Any]", rows) if isinstance(rows, list) else []:
        fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        window = fields.get(window_key)
        if isinstance(window, int) and window > 0:
            windows[str(fields.get(name_key))] = window
    return windows
