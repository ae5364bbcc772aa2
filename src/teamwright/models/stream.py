"""One HTTP exchange with a model service, and the assembly of its answer from the events of the Messages API's stream.

The read timeout restarts at each byte, the progress timeout at each event except keep-alives. Until the content of an
answer begins it is longer where the server may read the prompt for minutes. Leaving the iteration closes the
connection. All failures are raised as `ServiceError`. The only module of the package that uses httpx2.

Unknown blocks and keys are stored as received; unknown events and deltas are ignored. An incomplete answer is never
returned as a whole one. Thinking in tags at the beginning of a text is separated from the text. Format:
https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import AlivePart, TextPart, ThinkingPart, UsagePart
from teamwright.models.model_settings import FIRST_CONTENT_S, STALL_QUIET_S, STALL_S, ModelSettings
from teamwright.models.providers.api_format import (
    PROMPT_PROGRESS,
    WHOLE_BLOCK,
    Event,
    EventReader,
    OutgoingRequest,
    block_number,
    content_object,
    content_text,
    content_value,
    given_text,
    thinking_block,
)
from teamwright.models.service_error import (
    ServiceAnswer,
    ServiceError,
    parse_event_error,
    parse_http_error,
    rate_limit_headers,
    read_request_id,
)
from teamwright.models.token_estimate import text_size
from teamwright.models.tool_call_repair import parse_arguments, parse_json, parse_object, safe_id, safe_name
from teamwright.processes.http import hide_http_logs
from teamwright.protocol.messages import UNPARSED_ARGUMENTS, Block
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Usage

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response


MAX_ERROR_BODY = 64 * 1024
"""Bytes that are read of an error response."""

ENDING_S = 0.25
"""Seconds that a stream may stay open after its answer is complete."""

TRAILING_S = 5.0
"""The same, in seconds, while the usage is still missing."""


class HttpExchange:
    """One attempt of one request. `request_id` and `limits`, the headers about rate limits, are known once the service
    has begun to answer.
    """

    def __init__(self, client: AsyncClient, endpoint: Endpoint, timeouts: Timeouts) -> None:
        self._client = client
        self._endpoint = endpoint
        self._clocks = timeouts
        self._progress_by = 0.0
        self._ending_by = float("inf")
        self.request_id = ""
        self.limits: tuple[tuple[str, str], ...] = ()
        self.is_answering = False
        """True from the first content of the answer on."""

    @property
    def patience_s(self) -> float:
        """The seconds that the answer may make no progress now."""
        return self._clocks.stall_s if self.is_answering else self._clocks.first_s

    @property
    def end_mark(self) -> str:
        """The event that ends an answer of this API."""
        return self._endpoint.facts.end

    async def events(self, outgoing: OutgoingRequest, reader: EventReader) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of the answer, decoded, until the stream ends. Raises `ServiceError`."""
        self._progress_by = asyncio.get_running_loop().time() + self.patience_s
        async with (
            self._open_answer(outgoing) as response,
            aclosing(_payloads(self._chunks(response), reader)) as payloads,
        ):
            async for name, data in payloads:
                event = self._event(name, data)
                if event is not None:
                    yield event

    @asynccontextmanager
    async def _open_answer(self, outgoing: OutgoingRequest) -> AsyncGenerator[Response, None]:
        """Yield the response, once it has begun and is a stream of events."""
        response = await self._send(outgoing)
        try:
            self.request_id = read_request_id(response.headers)
            self.limits = rate_limit_headers(response.headers)
            kind = response.headers.get("content-type", "")
            if response.status_code != 200 or (kind and not kind.startswith(self._endpoint.facts.stream_type)):
                raise await self._not_a_stream(response)
            yield response
        finally:
            await response.aclose()

    def end_soon(self, *, trailing: bool = False) -> None:
        """Stop soon after the complete answer: read the rest of the stream for a moment, to keep the connection.

        `trailing`: the usage is still missing, so wait a little longer.
        """
        self._ending_by = asyncio.get_running_loop().time() + (TRAILING_S if trailing else ENDING_S)

    def note_content(self) -> None:
        """Note the first content of the answer: from now on it may pause for the progress timeout only."""
        self.is_answering = True
        self._progress_by = asyncio.get_running_loop().time() + self.patience_s

    async def _send(self, outgoing: OutgoingRequest) -> Response:
        import httpx2

        try:
            request = self._client.build_request("POST", outgoing.url, content=outgoing.body, headers=outgoing.headers)
            async with time_limit(self._progress_by - asyncio.get_running_loop().time()):
                return await self._client.send(request, stream=True)
        except TimeoutError:
            raise ServiceError("stalled", f"began no answer within {self.patience_s:.0f} s") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise ServiceError("connect", _error_text(error)) from None
        except (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.InvalidURL, ValueError):
            # The texts of these errors may quote a header, which contains the key.
            raise ServiceError("strange", "the request cannot be written: look at the address and the key") from None
        except RuntimeError:
            raise ServiceError("broken", "the connections were closed during the request") from None
        except httpx2.HTTPError as error:
            trouble = ServiceError("broken", _error_text(error))
            trouble.is_unanswered = isinstance(error, httpx2.RemoteProtocolError | httpx2.NetworkError)
            raise trouble from None

    async def _chunks(self, response: Response) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer as they arrive, each wait bounded by both timeouts."""
        import httpx2

        loop = asyncio.get_running_loop()
        chunks = response.aiter_bytes()
        while True:
            left_s = min(self._progress_by, self._ending_by) - loop.time()
            limit_s = min(left_s, self._clocks.read_s)
            try:
                async with time_limit(limit_s):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                silence = "continued no answer" if self.is_answering else "began no answer"
                waited_s = self._clocks.read_s if limit_s < left_s else self.patience_s
                text = f"{silence} within {waited_s:.0f} s"
                raise ServiceError("stalled", text, ServiceAnswer(request_id=self.request_id)) from None
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                raise ServiceError("broken", _error_text(error), ServiceAnswer(request_id=self.request_id)) from None
            yield chunk

    def _event(self, name: str, data: bytes) -> dict[str, Any] | None:
        """Return one event, or None for a keep-alive. Every other event is progress."""
        if name == "ping":
            return None
        if name == "error":
            raise parse_event_error(data, self.request_id)
        try:
            event: object = parse_json(data)
        except (ValueError, RecursionError):
            if data.strip() == b"[DONE]":
                return None
            raise ServiceError("broken", "an event is not JSON", ServiceAnswer(request_id=self.request_id)) from None
        if not isinstance(event, dict):
            return None
        known = cast("dict[str, Any]", event)
        if known.get("type") == "ping":
            return None
        if known.get("type") == "error" or (known.get("error") and "type" not in known):
            raise parse_event_error(data, self.request_id)
        self._progress_by = asyncio.get_running_loop().time() + self.patience_s
        return known

    async def _not_a_stream(self, response: Response) -> ServiceError:
        body = b""
        try:
            async with aclosing(self._chunks(response)) as chunks:
                body = await _first_bytes(chunks)
        except ServiceError:
            pass  # the body is optional: the status is sufficient
        status = response.status_code
        if status != 200 or b'"error"' in body:
            return parse_http_error(status, response.headers, body)
        return ServiceError(
            "strange", "the answer is not an event stream", ServiceAnswer(status, request_id=self.request_id)
        )


class Timeouts(Struct, frozen=True):
    """Limits in seconds. `first_s` is the progress timeout before the first content of an answer."""

    connect_s: float
    read_s: float
    stall_s: float
    first_s: float

    @classmethod
    def from_settings(cls, settings: ModelSettings, endpoint: Endpoint) -> Timeouts:
        """Return the limits for an endpoint: longer ones for local servers, and for models that think silently."""
        quiet = endpoint.is_local or endpoint.api != "messages"
        stall = settings.stall_s or (STALL_QUIET_S if quiet else STALL_S)
        first = settings.stall_s or (FIRST_CONTENT_S if endpoint.is_local else stall)
        read = first if quiet else min(settings.read_timeout_s, stall)
        return cls(settings.connect_s, read, stall, first)


def new_client(endpoint: Endpoint, timeouts: Timeouts) -> AsyncClient:
    """Return a client for one endpoint. TLS and the proxy settings are read only where they are needed.

    Raises `ServiceError` for an unusable proxy or unusable certificates in the environment.
    """
    import httpx2

    hide_http_logs()
    here = endpoint.is_on_this_machine
    try:
        return httpx2.AsyncClient(
            # Without `trust_env` the certificates of the environment must be passed explicitly.
            verify=httpx2.create_ssl_context() if here and endpoint.uses_tls else not here,
            trust_env=not here,
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=timeouts.connect_s, write=timeouts.stall_s),
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=60.0),
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as problem:
        raise unusable_client_error(problem) from None


def unusable_client_error(problem: Exception) -> ServiceError:
    """Return the error of a client that cannot be created: a SOCKS proxy, certificates, the address of a proxy."""
    if isinstance(problem, ImportError):
        return ServiceError("setup", "a SOCKS proxy (ALL_PROXY, HTTPS_PROXY) needs the package socksio")
    if isinstance(problem, OSError):
        return ServiceError("setup", "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read")
    return ServiceError(
        "setup", "the address of the proxy (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY) cannot be used"
    )


async def get_json(
    endpoint: Endpoint, path: str, timeouts: Timeouts, signed: list[tuple[str, str]] | None = None
) -> dict[str, Any]:
    """Return a JSON object of the service, e.g. its list of models. Raises `ServiceError`; does not retry.

    `signed` are the headers, if they differ from the endpoint's.
    """
    import httpx2

    headers = [(name, value) for name, value in signed or endpoint.headers() if name != "content-type"]
    try:
        async with new_client(endpoint, timeouts) as client, time_limit(timeouts.connect_s * 2):
            response = await client.get(endpoint.url(path), headers=headers)
    except TimeoutError:
        raise ServiceError("stalled", "did not answer in time") from None
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
        raise ServiceError("connect", _error_text(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
        raise ServiceError("strange", "the request cannot be written, or its answer not read") from None
    if response.status_code != 200:
        raise parse_http_error(response.status_code, response.headers, response.content[:MAX_ERROR_BODY])
    try:
        parsed: object = response.json()
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ServiceError("strange", "the answer is not a JSON object")
    return cast("dict[str, Any]", parsed)


async def _payloads(
    chunks: AsyncGenerator[bytes, None], reader: EventReader
) -> AsyncGenerator[tuple[str, bytes], None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            for payload in reader.feed(chunk):
                yield payload


async def _first_bytes(chunks: AsyncIterator[bytes]) -> bytes:
    body = b""
    async for chunk in chunks:
        body += chunk
        if len(body) >= MAX_ERROR_BODY:
            break
    return body[:MAX_ERROR_BODY]


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


CUT_OFF_REASONS = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Stop reasons after which the last block may be incomplete."""

_WHOLE_REASONS = frozenset({"end_turn", "tool_use"})
"""Stop reasons of a whole answer."""

MAX_COUNT = 1e9
"""The largest plausible count of tokens; larger ones are ignored."""

_BLOCK_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_GROWING = {"text_delta": "text", "thinking_delta": "thinking"}


class AnswerAssembly:
    """An assembly of events in order; `is_whole` is True from `message_stop` on."""

    __slots__ = (
        "_blocks",
        "_limit",
        "_newest",
        "_places",
        "_stop_reason",
        "_usage",
        "events",
        "has_begun",
        "hidden_size",
        "id",
        "is_whole",
        "model",
        "size",
    )

    def __init__(self, limit: int = 0) -> None:
        """Create an assembly. `limit` is the longest answer that was asked for, in tokens; 0: not known."""
        self._limit = limit
        self._blocks: dict[int, _OpenBlock] = {}
        self._places: dict[int, int] = {}
        self._newest = -1
        self._usage: dict[str, Any] = {}
        self.id = ""
        self.model = ""
        self._stop_reason = ""
        self.is_whole = False
        self.events = 0
        """The number of events."""
        self.has_begun = False
        """True from the first event on that does not only report the reading of the prompt."""
        self.size = 0
        """The bytes of the text, thinking and arguments so far."""
        self.hidden_size = 0
        """The bytes among them that are no part to be shown: arguments of calls."""

    @property
    def has_content(self) -> bool:
        """True once a part of the content was received."""
        return bool(self._blocks)

    @property
    def stop_reason(self) -> str:
        """Why the answer ended. llama.cpp calls an answer that it cut off at the limit complete on the Responses API,
        and so does LiteLLM in front of it, on the Messages API too: the count shows that it was cut.
        """
        is_full = 0 < self._limit == self.usage().output_tokens
        return "max_tokens" if is_full and self._stop_reason in _WHOLE_REASONS else self._stop_reason

    def add_event(self, event: dict[str, Any]) -> TextPart | ThinkingPart | UsagePart | AlivePart | None:
        """Add one event. Return the part of it that can be shown immediately, or the counts so far."""
        kind = event.get("type")
        self.events += 1
        if kind == PROMPT_PROGRESS:
            return AlivePart(prompt_read=float(event["share"]))
        if not isinstance(kind, str) and ("delta" in event or "content_block" in event):
            raise KeyError("type")  # a part of the answer without a known place
        self.has_begun = True
        if self.is_whole:
            # Only the counts may follow the end: a call in later events would run although no answer has it.
            if kind != "message_delta":
                return None
            self._count(event.get("usage"))
            return UsagePart(self.usage())
        if kind == "content_block_delta":
            return self._delta(event)
        if kind == "content_block_start":
            return self._start(event)
        if kind == "message_start":
            message = cast("dict[str, Any]", event.get("message") or {})
            self.model = str(message.get("model") or "")
            self.id = str(message.get("id") or "")
            self._count(message.get("usage"))
            return UsagePart(self.usage())
        if kind == "message_delta":
            delta = cast("dict[str, Any]", event.get("delta") or {})
            self._stop_reason = str(delta.get("stop_reason") or self._stop_reason)
            self._count(event.get("usage"))
            return UsagePart(self.usage())
        if kind == "message_stop":
            self.is_whole = True
        return None

    def _start(self, event: dict[str, Any]) -> TextPart | ThinkingPart | None:
        block = cast("Block", dict(event.get("content_block") or {}))
        if not _BLOCK_TYPE.fullmatch(str(block.get("type"))):
            raise KeyError("type")  # no service would accept it in a history
        text = "".join(content_text(block, key) for key in _GROWING.values() if key in block)
        index, after = block_index(event), max(self._blocks, default=-1) + 1
        place = after if index is None else index
        if event.get(WHOLE_BLOCK) and index in self._places:
            self._blocks[self._places[index]] = _OpenBlock(block)
            return None
        if place in self._blocks and self._blocks[place].has_grown:
            place = after  # some servers give all blocks one number
        self._places[place if index is None else index] = place
        self._blocks[place], self._newest = _OpenBlock(block), place
        return _stream_part(str(block.get("type")), text)

    def _delta(self, event: dict[str, Any]) -> TextPart | ThinkingPart | None:
        index, delta = block_index(event), content_object(event, "delta")
        if not isinstance(delta.get("type"), str):
            raise KeyError("type")
        growing = self._blocks.get(self._newest if index is None else self._places.get(index, -1))
        if growing is None:
            return _require_empty(delta, index)
        growing.add(delta)
        key = _GROWING.get(str(delta.get("type")))
        if key is None:
            hidden = text_size(str(delta.get("partial_json") or ""))
            self.size += hidden
            self.hidden_size += hidden
            return None
        text = content_text(delta, key)
        self.size += text_size(text)
        return _stream_part(key, text)

    def _count(self, usage: object) -> None:
        """Update the counts, which are totals: a later one replaces an earlier one, a missing one does not."""
        if isinstance(usage, dict):
            counts = cast("dict[str, Any]", usage)
            self._usage.update({key: value for key, value in counts.items() if _is_count(value)})

    def content(self) -> list[Block]:
        """Return the blocks in order, without empty text and incomplete calls."""
        growing = [self._blocks[index] for index in sorted(self._blocks)]
        cut = self.stop_reason in CUT_OFF_REASONS
        last = len(growing) - 1
        blocks = [g.finish(may_be_cut=cut and place == last) for place, g in enumerate(growing)]
        return [block for block in blocks if block is not None]

    def usage(self) -> Usage:
        """Return the usage of the request, without money. A value that is no number of tokens is ignored."""

        def count(key: str, counts_of: Mapping[str, Any] = self._usage) -> int:
            value = counts_of.get(key, 0)
            return int(value) if isinstance(value, int | float) and _is_count(value) else 0

        written = count("cache_creation_input_tokens")
        kinds = self._usage.get("cache_creation")
        hour = count("ephemeral_1h_input_tokens", cast("Mapping[str, Any]", kinds)) if isinstance(kinds, dict) else 0
        return Usage(
            input_tokens=count("input_tokens"),
            output_tokens=count("output_tokens"),
            cache_read=count("cache_read_input_tokens"),
            cache_write=written,
            requests=1,
            cache_write_hour=min(hour, written),
        )


def block_index(event: Event) -> int | None:
    """Return the number of a block in an event; None where a server leaves it out."""
    return block_number(event.get("index"))


def _require_empty(delta: Event, index: int | None) -> None:
    """Raise `ServiceError` for content of a block that never began: without it the answer would be another one."""
    if any(delta.get(key) for key in ("text", "thinking", "partial_json")):
        which = "a block" if index is None else f"block {index}"
        raise ServiceError("strange", f"content came for {which} that did not begin (content_block_start)")


def _is_count(value: object) -> bool:
    """Return True for a number of tokens, and for an object with such numbers."""
    return isinstance(value, dict) or (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
    )


class _OpenBlock:
    """A block that is still receiving deltas, which are joined once."""

    __slots__ = ("block", "json", "pieces")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.pieces: dict[str, list[str]] = {}
        self.json: list[str] | None = None

    @property
    def has_grown(self) -> bool:
        """True when some content came for it."""
        return bool(self.pieces or any(self.json or ()))

    def add(self, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind in _GROWING:
            key = _GROWING[kind]
            self.pieces.setdefault(key, []).append(content_text(delta, key))
        elif kind == "input_json_delta":
            self.json = self.json or []
            self.json.append(given_text(content_value(delta, "partial_json")))
        elif kind == "signature_delta":
            self.block["signature"] = delta.get("signature", "")
        elif kind == "citations_delta":
            citations = cast("list[Any] | None", self.block.get("citations"))
            self.block["citations"] = [*(citations or []), delta.get("citation")]

    def finish(self, *, may_be_cut: bool) -> Block | None:
        """Return the block, or None if no part of it may be kept. `may_be_cut`: it may be incomplete."""
        for key, pieces in self.pieces.items():
            self.block[key] = join_surrogates(str(self.block.get(key) or "") + "".join(pieces))
        if self.block.get("type") == "text":
            return self.block if str(self.block.get("text") or "").strip() else None
        if self.block.get("type") == "tool_use":
            self.block |= {"id": safe_id(self.block.get("id")), "name": safe_name(self.block.get("name"))}
            self.block.setdefault("input", {})
        if "input" not in self.block:
            return self.block
        return self._call("".join(self.json or ()), may_be_cut=may_be_cut)

    def _call(self, text: str, *, may_be_cut: bool) -> Block | None:
        """Return a call with its arguments. Broken JSON of a weak model is kept as text, for the toolbox to explain."""
        if not text.strip():
            if may_be_cut and not self.block["input"]:
                return None
            self.block["input"] = parse_object(self.block["input"])
            return self.block
        arguments = parse_arguments(text, repair=not may_be_cut)
        if may_be_cut and UNPARSED_ARGUMENTS in arguments:
            return None
        self.block["input"] = _whole_pairs(arguments)
        return self.block


def _stream_part(kind: str | None, text: str) -> TextPart | ThinkingPart | None:
    if not text:
        return None
    if kind == "text":
        return TextPart(text)
    return ThinkingPart(text) if kind == "thinking" else None


def _whole_pairs(value: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.loads(join_surrogates(json.dumps(value, ensure_ascii=False)))
    return value


def join_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined that came in two events; a lone half becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_OPENING_TAG = "<think>"
_CLOSING_TAG = "</think>"
_THINK_TAGS = "think-tags"
"""The mark of thinking from tags: it is sent back to no service."""

_BLOCK_EVENTS = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})


class ThinkTags:
    """A splitter of the first text of one answer. Block indices are doubled, to make room for the thinking before the
    text."""

    __slots__ = ("_at", "_newest", "_opened", "_pending", "_state")

    def __init__(self) -> None:
        self._at = self._newest = -1
        self._pending = ""
        self._state = "begin"
        self._opened = False

    def take(self, event: Event) -> Iterator[Event]:
        """Yield the events that one event becomes."""
        if event.get("type") in _BLOCK_EVENTS:
            event = {**event, "index": 2 * self._number(event) + 1}
        match event:
            case {"type": "content_block_start", "content_block": {"type": "text"}} if self._at < 0:
                self._at = event["index"]
                block = cast("Event", event["content_block"])
                yield {**event, "content_block": {**block, "text": ""}}
                yield from self._split(str(block.get("text") or ""))
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}} if (
                event["index"] == self._at
            ):
                yield from self._split(text)
            case {"type": "message_stop"}:
                yield from self._rest()
                yield event
            case _:
                yield event

    def _number(self, event: Event) -> int:
        """Return the number of the block of an event: one without a number belongs to the newest block."""
        number = block_index(event)
        begins = event.get("type") == "content_block_start"
        if number is None:
            number = self._newest + begins
        if begins:
            self._newest = number
        return number

    def _split(self, text: str) -> Iterator[Event]:
        self._pending += text
        if self._state == "begin":
            found = self._pending.lstrip()
            if _OPENING_TAG.startswith(found[: len(_OPENING_TAG)]) and len(found) < len(_OPENING_TAG):
                return
            self._state = "thinking" if found.startswith(_OPENING_TAG) else "words"
            self._pending = (
                found.removeprefix(_OPENING_TAG).lstrip("\n") if self._state == "thinking" else self._pending
            )
        if self._state == "thinking":
            thought, closed, rest = self._pending.partition(_CLOSING_TAG)
            overlap = 0 if closed else _overlap(thought)
            yield from self._thinking(thought[: len(thought) - overlap])
            self._pending = rest.lstrip("\n") if closed else thought[len(thought) - overlap :]
            self._state = "after" if closed else "thinking"
        if self._state == "after":
            self._pending = self._pending.lstrip("\n")
            self._state = "words" if self._pending else "after"
        if self._state == "words" and self._pending:
            yield self._words(self._pending)
            self._pending = ""

    def _rest(self) -> Iterator[Event]:
        text, self._pending = self._pending, ""
        if text and self._state == "thinking":
            yield from self._thinking(text)
        elif text:
            yield self._words(text)

    def _thinking(self, text: str) -> Iterator[Event]:
        if not text:
            return
        place = self._at - 1
        if not self._opened:
            self._opened = True
            yield {"type": "content_block_start", "index": place, "content_block": thinking_block(_THINK_TAGS)}
        yield {"type": "content_block_delta", "index": place, "delta": {"type": "thinking_delta", "thinking": text}}

    def _words(self, text: str) -> Event:
        return {"type": "content_block_delta", "index": self._at, "delta": {"type": "text_delta", "text": text}}


def _overlap(text: str) -> int:
    """Return how many characters at the end of a text may begin the closing tag."""
    return next((size for size in range(len(_CLOSING_TAG) - 1, 0, -1) if text.endswith(_CLOSING_TAG[:size])), 0)
