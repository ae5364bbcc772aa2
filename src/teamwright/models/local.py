"""What runs on this machine: local model servers, what they serve, how large their windows are.

Asked for error texts and for `doctor`; never to choose one. The answer
of a port is not trusted: it is bounded in time and size, and only plain names are kept.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from teamwright.models.endpoint import is_loopback
from teamwright.models.providers import PROVIDERS, Provider, base_url_of
from teamwright.protocol.values import dataclass

PROBE_S = 0.3
"""How long all local servers together may take to answer."""
BODY_MOST = 512 * 1024
"""Bytes of an answer that are read."""
_NAME = re.compile(r"[\w][\w.:/@+-]{0,99}")


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that a server lists; its window in tokens, where the server tells."""

    id: str
    window: int | None = None


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A local server that answers."""

    provider: str
    title: str
    where: str
    models: tuple[FoundModel, ...]

    def __str__(self) -> str:
        """One line for people."""
        shown = [m.id + (f" (window {m.window // 1000}k)" if m.window else "") for m in self.models[:3]]
        more = f" and {len(self.models) - 3} more" if len(self.models) > 3 else ""
        return f"{self.title} on {self.where}: {', '.join(shown) or 'no models'}{more}"


def probe_local(env: Mapping[str, str], *, within_s: float = PROBE_S) -> list[FoundServer]:
    """The preset local servers that answer on this machine, at most `within_s` seconds in all. Blocking."""
    deadline = time.monotonic() + within_s
    found: list[FoundServer] = []
    for provider in PROVIDERS.values():
        base_url = base_url_of(provider, env)
        if provider.local and is_loopback(urlsplit(base_url).hostname or ""):
            models = _ask(provider, base_url, deadline)
            if models is not None:
                found.append(FoundServer(provider.id, provider.title, urlsplit(base_url).netloc, models))
    return found


def _ask(provider: Provider, base_url: str, deadline: float) -> tuple[FoundModel, ...] | None:
    parsed = _get_json(base_url, provider.models_path, deadline)
    if parsed is None or not isinstance(parsed.get("data", 0), list | None):
        return None
    windows = _windows(provider.id, base_url, deadline)
    names = _names(parsed)
    listed = listed_windows(parsed or {})
    return tuple(FoundModel(name, windows.get(name) or windows.get("") or listed.get(name)) for name in names)


def _names(listing: Mapping[str, Any]) -> list[str]:
    """The plain names in a list of models. Ollama without a model says null for an empty list."""
    rows = cast("list[Any]", listing.get("data") or [])
    names = [str(cast("dict[str, Any]", row).get("id")) for row in rows if isinstance(row, dict)]
    return [name for name in names if _NAME.fullmatch(name)]


def _get_json(base_url: str, path: str, deadline: float) -> dict[str, Any] | None:
    """A JSON object of a loopback server, or None for whatever else."""
    import http.client

    parts = urlsplit(base_url)
    left = deadline - time.monotonic()
    if left <= 0 or parts.scheme != "http":
        return None
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=left)
    try:
        connection.request("GET", parts.path + path, headers={"accept": "application/json"})
        response = connection.getresponse()
        body = response.read(BODY_MOST)
        parsed: object = json.loads(body) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None


def listed_windows(listing: Mapping[str, Any]) -> dict[str, int]:
    """Windows that stand in a list of models itself: vLLM and SGLang (`max_model_len`), the Claude API."""
    rows = cast("list[Any]", listing.get("data") or [])
    windows: dict[str, int] = {}
    for row in rows:
        fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        window = fields.get("max_model_len") or fields.get("max_input_tokens")
        if isinstance(window, int) and window > 0:
            windows[str(fields.get("id"))] = window
    return windows


def _windows(provider: str, base_url: str, deadline: float) -> dict[str, int]:
    """Windows that a server tells on a path of its own, by model; the key `""` holds for all."""
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
