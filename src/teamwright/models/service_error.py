"""Errors of model services: their parsing, and the decision whether to retry.

The only place that reads a service's errors. Shapes and types: https://platform.claude.com/docs/en/api/errors (seen
2026-11-20), https://developers.openai.com/api/docs/guides/error-codes,
https://ai.google.dev/gemini-api/docs/troubleshooting,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html (seen 2026-11-21).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

STATUS_BY_TYPE = {
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
    # OpenAI's shape
    "invalid_api_key": 401,
    "insufficient_quota": 402,
    "model_not_found": 404,
    "context_length_exceeded": 400,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "server_is_overloaded": 503,
    # Google's
    "QUOTA_PER_DAY": 402,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "API_KEY_INVALID": 401,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    # Bedrock's, inside a stream
    "validationException": 400,
    "throttlingException": 429,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "serviceUnavailableException": 503,
}
"""The status of each error type, for errors inside a stream or with status 200."""

_STATUS_BY_REASON = {"insufficient_quota": 402, "API_KEY_INVALID": 401, "QUOTA_PER_DAY": 402}
"""Types that are more specific than their status: a used-up quota, and a wrong key."""

_CONTEXT_FULL = re.compile(
    r"prompt is too long|exceeds? (the )?(available )?context|context[ _](length|window|size|limit)|too many tokens"
    r"|input is too long|input token count .{0,40}exceeds",
    re.I,
)
_FULL_TYPES = frozenset({"request_too_large", "exceed_context_size_error", "context_length_exceeded"})


_KEY_TYPES = frozenset(
    {
        *("authentication_error", "invalid_api_key", "API_KEY_INVALID", "UNAUTHENTICATED"),
        *("UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignatureException"),
        *("InvalidClientTokenId", "ExpiredTokenException", "MissingAuthenticationTokenException"),
    }
)
_KEY_WRONG = re.compile(
    r"\b(invalid|incorrect|expired|missing|bad|wrong|unknown|no) ((x-)?(api|access|auth\w*|security|session)[ -]?)?"
    r"(key|token|credentials?)\b"
    r"|\b(key|token|credentials?)\b.{0,30}\b(invalid|not valid|expired|revoked|disabled|incorrect)\b",
    re.I,
)


class ServiceError(Exception):
    """A request that failed. Never leaves this package: it becomes a Retrying or a Failure part.

    `kind` is `http` (the service answered with an error), `connect` (it was not reached), `broken` (the answer ended
    early), `stalled` (nothing, or only keep-alives arrived), `strange` (the response is no answer), `setup` (no
    connection can be made with the proxy or the certificates in the environment), `endless` (far more came than the
    request asks for), or `unparsed` (the service could not parse a tool call of the model).
    """

    def __init__(self, kind: str, message: str, answer: ServiceAnswer | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.answer = answer or ServiceAnswer()
        self.is_unanswered = False
        """True when the connection ended before the service began to answer."""
        self.events: Sequence[Mapping[str, Any]] = ()
        """Events of the Messages API that were received before it, such as counts: this usage is charged."""

    @property
    def is_unavailable(self) -> bool:
        """True when the model is overloaded or its service does not work; False for a limit of the client's calls."""
        return self.answer.status not in (408, 409, 429)


class ServiceAnswer(Struct, frozen=True):
    """The service's response to a failed request. `status` 0: none."""

    status: int = 0
    type: str = ""
    request_id: str = ""
    retry_after_s: float | None = None
    should_retry: bool | None = None
    window: int | None = None
    """The tokens of the window that a refused prompt exceeds, where the service says it."""
    prompt_tokens: int = 0
    """The tokens of a refused prompt; 0 where the service does not say it."""


def is_throttled(trouble: ServiceError) -> bool:
    """Return True when all calls with the same key should pause."""
    return trouble.answer.status in (429, 529)


def is_worth_retrying(trouble: ServiceError) -> bool:
    """Return True when a retry of the same request may succeed. The service's own statement takes precedence."""
    if trouble.answer.should_retry is not None:
        return trouble.answer.should_retry
    if trouble.kind == "http":
        status = trouble.answer.status
        return status in (408, 409, 429) or (status >= 500 and not _SCHEMA_REFUSED.search(trouble.message))
    return trouble.kind in ("connect", "broken", "stalled", "unparsed")


def is_unparsed_call(trouble: ServiceError) -> bool:
    """Return True when the service could not parse what the model wrote: its tool call is no call of a given tool."""
    if trouble.kind == "unparsed" or trouble.answer.type == "tool_use_failed":
        return True
    return trouble.kind == "http" and bool(_UNPARSED_CALL.search(trouble.message))


_UNPARSED_CALL = re.compile(
    r"model produced output that does not match|failed to parse input at pos"  # llama.cpp
    r"|error parsing tool call"  # Ollama
    r"|tool call validation failed|failed to call a function"  # Groq, which has the type `tool_use_failed` too
    r"|invalid sequence as part of tooluse",  # Bedrock
    re.I,
)


def is_key_refused(trouble: ServiceError) -> bool:
    """Return True when the service refused the key: with 401 always, with 403 where its text says so."""
    answer = trouble.answer
    said_so = answer.type in _KEY_TYPES or _KEY_WRONG.search(trouble.message)
    return answer.status == 401 or (answer.status == 403 and bool(said_so))


def is_context_full(trouble: ServiceError) -> bool:
    """Return True when the request was refused for its size."""
    answer = trouble.answer
    if answer.status == 413 or answer.type in _FULL_TYPES:
        return True
    return answer.status in (400, 422, 500) and bool(_CONTEXT_FULL.search(trouble.message))


def is_request_refused(trouble: ServiceError) -> bool:
    """Return True when the messages were refused for what they contain, such as a signature of another key."""
    status = trouble.answer.status
    if trouble.kind != "http" or is_context_full(trouble) or status < 400:
        return False
    return status in (400, 422) or bool(_THINKING.search(trouble.message) or _SCHEMA_REFUSED.search(trouble.message))


_SCHEMA_REFUSED = re.compile(r"\bjson schema (error|conversion)|\bfailed to parse grammar\b", re.I)
"""llama.cpp's errors for a schema that it cannot make a grammar of; some versions send them with HTTP 500."""

_THINKING = re.compile(r"\bsignature\b|\bthinking\b|encrypted[_ ]content|\breasoning\b|\bitem .{0,10}\brs_", re.I)


def is_path_unknown(trouble: ServiceError) -> bool:
    """Return True when the server does not know the address of the request, and so does not have this API.

    Servers use one status and often one type for an unknown address and for an unknown model.
    """
    answer = trouble.answer
    if answer.status not in (404, 405):
        return False
    if answer.type == "model_not_found" or _ABOUT_A_MODEL.search(trouble.message):
        return False
    return not answer.type or answer.status == 405 or bool(_ABOUT_THE_PATH.search(trouble.message))


_ABOUT_A_MODEL = re.compile(r"\b(models?|deployments?|engine)\b", re.I)
_ABOUT_THE_PATH = re.compile(
    r"file not found"  # llama.cpp
    r"|invalid url"  # OpenAI
    r"|unexpected endpoint"  # LM Studio
    r"|^not found\.?$|page not found|resource not found|(path|route|url|endpoint)\b.{0,80}\bnot (found|exist)"
    r"|unknown (path|route|url|endpoint)|no such (path|route)|cannot (post|get)\b|method not allowed",
    re.I,
)
"""Words of servers for an address that they do not have."""


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the service asks to wait: `retry-after-ms`, or `retry-after` as seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    if not value:
        return None
    from email.utils import mktime_tz, parsedate_tz  # loaded only for a date, which hardly any service sends

    try:
        date = parsedate_tz(value)
        return max(0.0, mktime_tz(date) - time.time()) if date else None
    except (ValueError, TypeError, ArithmeticError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) < 1e9 else None


def read_request_id(headers: Mapping[str, str]) -> str:
    """Return the id that the service gave to the request, or an empty text."""
    return next((found for name in _ID_HEADERS if (found := headers.get(name))), "")


def rate_limit_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the headers in which the service reports its rate limits."""
    found = ((name, "".join(filter(str.isprintable, value))[:60]) for name, value in headers.items())
    return tuple(row for row in found if "ratelimit" in row[0].lower())[:MAX_LIMITS]


MAX_LIMITS = 24
"""The number of headers about rate limits that are kept."""

_ID_HEADERS = ("request-id", "x-request-id", "x-amzn-requestid")


def parse_http_error(status: int, headers: Mapping[str, str], body: bytes) -> ServiceError:
    """Return the error of an error response, by its status or, with status 200, by its body."""
    error = _read_error(body)
    kind = error.type or (headers.get("x-amzn-errortype") or "").partition(":")[0]
    real = error.status(kind) if status == 200 else _STATUS_BY_REASON.get(kind, status)
    retry_s = retry_after_s(headers)
    return ServiceError(
        "http",
        error.message or f"HTTP status {status}",
        ServiceAnswer(
            status=real,
            type=kind,
            request_id=read_request_id(headers) or error.request_id,
            retry_after_s=error.retry_s if retry_s is None else retry_s,
            should_retry={"true": True, "false": False}.get(headers.get("x-should-retry") or ""),
            window=error.window,
            prompt_tokens=error.prompt_tokens,
        ),
    )


def parse_event_error(data: bytes, request_id: str) -> ServiceError:
    """Return the error of an error event inside a stream."""
    error = _read_error(data)
    known = ServiceAnswer(
        error.status(error.type),
        error.type,
        request_id or error.request_id,
        retry_after_s=error.retry_s,
        window=error.window,
        prompt_tokens=error.prompt_tokens,
    )
    return ServiceError("http", error.message or error.type, known)


class _ErrorBody(Struct, frozen=True):
    """The content of an error body. `code` is a number in it that is a status, 0: none."""

    message: str = ""
    type: str = ""
    request_id: str = ""
    code: int = 0
    retry_s: float | None = None
    window: int | None = None
    prompt_tokens: int = 0

    def status(self, kind: str) -> int:
        """Return the status that it would have as a separate response."""
        return STATUS_BY_TYPE.get(kind) or (self.code if 400 <= self.code < 600 else 500)


def _read_error(body: bytes) -> _ErrorBody:
    """Parse an error body: of the Messages API, of OpenAI's shape, Google's or Bedrock's, or plain text."""
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError):
        return _ErrorBody(_plain(body))
    if isinstance(parsed, list) and parsed:
        parsed = cast("list[object]", parsed)[0]  # Google puts some errors into a list
    if not isinstance(parsed, dict):
        return _ErrorBody(_plain(body))
    whole = cast("dict[str, Any]", parsed)
    inner: object = whole.get("error") or whole
    if isinstance(inner, str):
        return _ErrorBody(inner)
    error = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
    message = error.get("message") or error.get("detail") or error.get("Message") or ""
    code: object = error.get("code")
    reason, retry_s = _details(error)
    kind = reason or (code if isinstance(code, str) and not code.isdigit() else "") or error.get("type")
    number = int(code) if isinstance(code, int) or (isinstance(code, str) and _STATUS.fullmatch(code)) else 0
    return _ErrorBody(
        str(message),
        str(kind or error.get("status") or ""),
        str(whole.get("request_id") or ""),
        number,
        retry_s,
        window=_window(error.get("n_ctx"), str(message)),
        prompt_tokens=_prompt_tokens(error.get("n_prompt_tokens"), str(message)),
    )


def _window(given: object, message: str) -> int | None:
    """Return the window that an error names: as llama.cpp's `n_ctx`, or in words of services."""
    if isinstance(given, int) and given > 0:
        return given
    found = _WINDOW.search(message)
    return int((found[1] or found[2]).replace(",", "")) if found else None


_WINDOW = re.compile(
    r"maximum context length (?:is|of) ([0-9][0-9,]*)"  # OpenAI, vLLM
    r"|context (?:size|length|window)[^0-9]{0,20}\(([0-9][0-9,]*) tokens",
    re.I,
)


def _prompt_tokens(given: object, message: str) -> int:
    """Return the tokens of the prompt that an error names: as `n_prompt_tokens` (llama.cpp), or in words."""
    if isinstance(given, int) and given > 0:
        return given
    found = _PROMPT_TOKENS.search(message)
    return int(next(filter(None, found.groups())).replace(",", "")) if found else 0


_PROMPT_TOKENS = re.compile(
    r"prompt is too long: ([0-9][0-9,]*) tokens"  # Anthropic
    r"|resulted in ([0-9][0-9,]*) tokens"  # OpenAI
    r"|\(([0-9][0-9,]*) in the messages"  # vLLM
    r"|input token count \(([0-9][0-9,]*)\)"  # Gemini
    r"|request \(([0-9][0-9,]*) tokens\)",  # llama.cpp, behind a gateway that keeps only its words
    re.I,
)

_STATUS = re.compile(r"[0-9]{3}")


def _details(error: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return Google's details: a reason more specific than the status, and how long to wait, in seconds."""
    reason = ""
    wait = None
    details: object = error.get("details")
    for row in cast("list[Any]", details) if isinstance(details, list) else []:
        fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        if (known := str(fields.get("reason"))) in _STATUS_BY_REASON:
            reason = known
        if any("PerDay" in str(one.get("quotaId", "")) for one in _violations(fields)):
            reason = "QUOTA_PER_DAY"
        if str(fields.get("@type", "")).endswith("RetryInfo"):
            wait = _number(str(fields.get("retryDelay", "")).removesuffix("s"))
    return reason, wait


def _violations(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return Google's used-up quotas: `quotaId` contains the period of each."""
    rows: object = fields.get("violations")
    found = cast("list[Any]", rows) if isinstance(rows, list) else []
    return [cast("dict[str, Any]", row) for row in found if isinstance(row, dict)]


def _plain(body: bytes) -> str:
    """Return a few words of a body that is no JSON; nothing of an HTML page."""
    text = body[:400].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text
