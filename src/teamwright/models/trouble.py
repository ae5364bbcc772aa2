"""What went wrong with a request, whether it is worth another try, and how a person is told.

The only place that reads a service's errors. Shapes and types:
https://platform.claude.com/docs/en/api/errors (seen 2026-11-20).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from typing import Any, cast

STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that belongs to an error type, for errors that come inside a stream or with status 200."""

_CONTEXT_FULL = re.compile(
    r"prompt is too long|exceeds? (the )?(available )?context|context[ _](length|window|size|limit)|too many tokens",
    re.I,
)
_FULL_TYPES = frozenset({"request_too_large", "exceed_context_size_error", "context_length_exceeded"})


class Trouble(Exception):
    """A request that failed. Never leaves this room: it becomes a Retrying or a Failure part.

    `kind` is `http` (the service answered with an error), `connect` (it was not reached), `broken` (the answer
    stopped short), `stalled` (nothing but signs of life came) or `strange` (what came is no answer).
    """

    def __init__(self, kind: str, message: str, answer: Answered | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.answer = answer or Answered()


@dataclass(frozen=True, slots=True)
class Answered:
    """What the service said with its error. `status` 0: nothing."""

    status: int = 0
    type: str = ""
    request_id: str = ""
    retry_after_s: float | None = None
    should_retry: bool | None = None


def throttles(trouble: Trouble) -> bool:
    """Whether everybody with the same key should pause."""
    return trouble.answer.status in (429, 529)


def worth_retrying(trouble: Trouble) -> bool:
    """Whether the same request may go well on another try. What the service says of it wins."""
    if trouble.answer.should_retry is not None:
        return trouble.answer.should_retry
    if trouble.kind == "http":
        status = trouble.answer.status
        return status in (408, 409, 429) or status >= 500
    return trouble.kind in ("connect", "broken", "stalled")


def context_is_full(trouble: Trouble) -> bool:
    """Whether the request was refused for its size."""
    answer = trouble.answer
    if answer.status == 413 or answer.type in _FULL_TYPES:
        return True
    return answer.status in (400, 422, 500) and bool(_CONTEXT_FULL.search(trouble.message))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the service asks to wait: `retry-after-ms`, or `retry-after` as seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None:
        return max(0.0, seconds)
    date = parsedate_tz(asked) if asked else None
    return max(0.0, mktime_tz(date) - time.time()) if date else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) < 1e9 else None


def http_trouble(status: int, headers: Mapping[str, str], body: bytes) -> Trouble:
    """The trouble of an answer that is an error, by its status or, with status 200, by its body."""
    kind, message, request_id = _read_error(body)
    real = STATUS_OF.get(kind, 500) if status == 200 else status
    asked = headers.get("x-should-retry")
    return Trouble(
        "http",
        message or f"HTTP status {status}",
        Answered(
            status=real,
            type=kind,
            request_id=headers.get("request-id") or headers.get("x-request-id") or request_id,
            retry_after_s=retry_after_s(headers),
            should_retry={"true": True, "false": False}.get(asked or ""),
        ),
    )


def event_trouble(data: bytes, request_id: str) -> Trouble:
    """The trouble of an `error` event inside a stream."""
    kind, message, own_id = _read_error(data)
    return Trouble("http", message or kind, Answered(STATUS_OF.get(kind, 500), kind, request_id or own_id))


def _read_error(body: bytes) -> tuple[str, str, str]:
    """Type, message and request id of an error body: of the Messages API, of OpenAI's shape, or plain text."""
    try:
        parsed: object = json.loads(body)
    except ValueError:
        return "", _plain(body), ""
    if not isinstance(parsed, dict):
        return "", _plain(body), ""
    whole = cast("dict[str, Any]", parsed)
    inner: object = whole.get("error", whole)
    if isinstance(inner, str):
        return "", inner, ""
    error = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
    message = error.get("message") or error.get("detail") or ""
    return str(error.get("type") or ""), str(message), str(whole.get("request_id") or "")


def _plain(body: bytes) -> str:
    """A few words of a body that is no JSON; nothing of a page of HTML."""
    text = body[:400].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text
