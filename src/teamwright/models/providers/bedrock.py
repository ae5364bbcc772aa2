"""Bedrock's Converse API: one format for all its models, binary event streams, and requests that AWS keys sign.

Keys come from the environment; those of a profile (single sign-on, roles, processes) are read with `botocore`, which
the extra `providers` installs. No request goes to a machine's metadata service. Formats (seen 2026-11-21):
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import struct
from binascii import crc32
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import quote, urlsplit

from msgspec import Struct

from teamwright.models.endpoint import Endpoint, Signing
from teamwright.models.model import CONTENT_FILTER, Prefix
from teamwright.models.providers.api_format import (
    PROVIDER_KEY,
    AnswerEvents,
    ConversionCache,
    DecodedMessage,
    EncodedMessage,
    Event,
    OutgoingRequest,
    PrefixFields,
    count_field,
    has_breakpoint,
    merge_messages,
    object_field,
    result_blocks,
)
from teamwright.models.service_error import ServiceAnswer, ServiceError
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.messages import Block, encode
from teamwright.protocol.secret_texts import repr_without

API_NAME = "bedrock"
MARKED_MESSAGES = 2
"""The number of newest user messages with a cache point."""

_POINT: Event = {"cachePoint": {"type": "default"}}
_STOPS = {"guardrail_intervened": CONTENT_FILTER, "content_filtered": CONTENT_FILTER}
_PARAMETERS = {"temperature": "temperature", "top_p": "topP"}
_UNREADABLE = frozenset({"malformed_model_output", "malformed_tool_use"})
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}


class Bedrock:
    """See `ApiFormat`. With `caching`, requests to Claude models have cache points."""

    def __init__(self, endpoint: Endpoint, model: str, *, caching: bool) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url(f"/model/{quote(model, safe='')}/converse-stream")
        self._caching = caching and "anthropic.claude" in model
        self._conversions = ConversionCache(self._head, _pieces)

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return the request, joined from encoded parts, and signed if the credential signs."""
        pieces = self._conversions.pieces(items)
        messages = merge_messages(_with_cache_points(pieces) if self._caching else pieces, b"content")
        body = b"".join((self._conversions.head(prefix), messages, b"]}"))
        return OutgoingRequest(self._url, await self._headers(body), body)

    def reader(self) -> EventStreamReader:
        """Return a reader of binary frames."""
        return EventStreamReader()

    def translator(self) -> BedrockAnswer:
        """Return a translator for one answer."""
        return BedrockAnswer()

    async def _headers(self, body: bytes) -> list[tuple[str, str]]:
        endpoint = self._endpoint
        if endpoint.signing is None:
            return endpoint.headers()
        stays = not endpoint.signing.profile
        keys = endpoint_keys(endpoint) if stays else await asyncio.to_thread(endpoint_keys, endpoint)
        return sign_request(OutgoingRequest(self._url, endpoint.headers(), body), keys, endpoint.signing.region)

    def _head(self, head: PrefixFields) -> bytes:
        fields: dict[str, Any] = {}
        config: dict[str, Any] = {"maxTokens": head.max_tokens} if head.max_tokens else {}
        config |= {_PARAMETERS[name]: value for name, value in head.sampling.items() if name in _PARAMETERS}
        if config:
            fields["inferenceConfig"] = config
        if own := {name: value for name, value in head.sampling.items() if name not in _PARAMETERS}:
            fields["additionalModelRequestFields"] = own
        if head.effort:
            fields["outputConfig"] = {"effort": head.effort}
        if head.system:
            fields["system"] = self._add_cache_points(head.system, [{"text": part["text"]} for part in head.system])
        if head.tools:
            tools: dict[str, Any] = {"tools": self._add_cache_points(head.tools, [_tool(tool) for tool in head.tools])}
            fields["toolConfig"] = tools | _choice(head.tool_choice)
        return (encode(fields)[:-1] + b"," if fields else b"{") + b'"messages":['

    def _add_cache_points(self, parts: Sequence[Mapping[str, Any]], entries: list[Event]) -> list[Event]:
        """Return the parts with a cache point after each that has a breakpoint."""
        pairs = [
            (one, _POINT) if self._caching and has_breakpoint(part) else (one,)
            for part, one in zip(parts, entries, strict=True)
        ]
        return [one for pair in pairs for one in pair]


def _tool(tool: Mapping[str, Any]) -> Event:
    about = {"name": tool["name"], "description": tool.get("description") or tool["name"]}
    return {"toolSpec": {**about, "inputSchema": {"json": tool.get("input_schema") or {"type": "object"}}}}


def _choice(choice: Mapping[str, Any]) -> Event:
    kind = choice.get("type")
    if kind == "tool":
        return {"toolChoice": {"tool": {"name": choice["name"]}}}
    return {"toolChoice": {kind: {}}} if kind in ("auto", "any") else {}


def _with_cache_points(pieces: Sequence[EncodedMessage]) -> list[EncodedMessage]:
    """Return the pieces with a cache point after the newest user messages."""
    points = list(pieces)
    left = MARKED_MESSAGES
    for place in range(len(points) - 1, -1, -1):
        last_of_message = place + 1 == len(points) or points[place + 1].role != points[place].role
        if points[place].role == "user" and last_of_message and left:
            points[place] = EncodedMessage("user", points[place].encoded + b"," + encode(_POINT))
            left -= 1
    return points


def _pieces(message: DecodedMessage) -> Iterable[EncodedMessage]:
    parts = [part for block in message.blocks if (part := _part(block)) is not None]
    if parts:
        yield EncodedMessage(message.role, b",".join(map(encode, parts)))


def _part(block: Block) -> Event | None:
    kind = block.get("type")
    if kind == "text":
        return {"text": block["text"]}
    if kind == "image":
        return _image(block)
    if kind == "tool_use":
        return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": object_field(block, "input")}}
    if kind == "tool_result":
        return {"toolResult": _result(block)}
    if block.get(PROVIDER_KEY) != API_NAME:
        return None
    if kind == "redacted_thinking":
        return {"reasoningContent": {"redactedContent": block["data"]}}
    if kind == "thinking" and block.get("signature"):
        return {"reasoningContent": {"reasoningText": {"text": block["thinking"], "signature": block["signature"]}}}
    return None


def _image(block: Block) -> Event | None:
    source: Mapping[str, Any] = block["source"]
    form = _FORMATS.get(str(source.get("media_type")))
    return {"image": {"format": form, "source": {"bytes": source["data"]}}} if form and "data" in source else None


def _result(block: Block) -> Event:
    parts = [part for each in result_blocks(block) if (part := _part(each)) is not None]
    result: Event = {"toolUseId": block["tool_use_id"], "content": parts}
    return result | ({"status": "error"} if block.get("is_error") else {})


class BedrockAnswer:
    """A translator of one event stream."""

    def __init__(self) -> None:
        self._events = AnswerEvents()
        self._counted = False
        self._unreadable = False

    @property
    def has_trailing(self) -> bool:
        """True until the usage was received, which follows the end."""
        return not self._counted

    def translate(self, event: Event) -> Iterable[Event]:
        """Return the translation of one event: an object with its name as only key."""
        for name, content in event.items():
            if name in _HANDLERS:
                _HANDLERS[name](self, content)
        return self._events.take_events()

    def block(self, event: Event) -> None:
        """Open a call; other blocks are opened with their first piece."""
        if use := object_field(object_field(event, "start"), "toolUse"):
            self._events.call(event["contentBlockIndex"], use.get("toolUseId"), use.get("name"))

    def delta(self, event: Event) -> None:
        """Add to a block."""
        place = event["contentBlockIndex"]
        delta = object_field(event, "delta")
        self._events.text(place, str(delta.get("text") or ""))
        self._events.arguments(place, object_field(delta, "toolUse").get("input"))
        thought = object_field(delta, "reasoningContent")
        self._events.thinking(place, str(thought.get("text") or ""), API_NAME)
        if thought.get("signature"):
            self._events.signature(place, thought["signature"], API_NAME)
        if thought.get("redactedContent") and not self._events.has(place):
            self._events.open(
                place, {"type": "redacted_thinking", "data": thought["redactedContent"], PROVIDER_KEY: API_NAME}
            )

    def stop(self, event: Event) -> None:
        """End the answer. One that the service could not parse fails with its usage, see `metadata`."""
        reason = str(event.get("stopReason") or "")
        if reason in _UNREADABLE:
            self._unreadable = True  # the counts follow it
            return
        self._events.end(_STOPS.get(reason, reason))

    def metadata(self, event: Event) -> None:
        """Report the usage. Raises `ServiceError` after an answer that the service could not parse."""
        usage = object_field(event, "usage")
        self._counted = True
        self._events.count(
            fresh=count_field(usage, "inputTokens"),
            out=count_field(usage, "outputTokens"),
            read=count_field(usage, "cacheReadInputTokens"),
            write=count_field(usage, "cacheWriteInputTokens"),
        )
        if self._unreadable:
            trouble = ServiceError("unparsed", "the model wrote a call that cannot be read")
            trouble.events = self._events.take_events()
            raise trouble


_HANDLERS: dict[str, Callable[[BedrockAnswer, Event], None]] = {
    "contentBlockStart": BedrockAnswer.block,
    "contentBlockDelta": BedrockAnswer.delta,
    "messageStop": BedrockAnswer.stop,
    "metadata": BedrockAnswer.metadata,
}
"""The events with content; the others are signs of progress."""

PRELUDE = 12
"""Bytes before the headers: length of the frame, length of the headers, and their checksum."""

MAX_FRAME = 24 * 1024 * 1024
"""Maximum bytes of a frame."""

_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type, for types of fixed size."""

_BYTES = 6
_STRING = 7
"""The types of a header's value of variable size."""


class EventStreamReader:
    """A parser of event streams: each event as `{"NAME": payload}`, and exceptions named `error`."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Return the events that these bytes complete. Raises `ServiceError` for bytes that are no event stream."""
        self._buffer += chunk
        events: list[tuple[str, bytes]] = []
        while (frame := self._frame()) is not None:
            events.append(_frame_event(*frame))
        return events

    def _frame(self) -> tuple[dict[str, str], bytes] | None:
        if len(self._buffer) < PRELUDE:
            return None
        whole, headers, check = struct.unpack_from(">III", self._buffer)
        if check != crc32(self._buffer[:8]) or not PRELUDE + headers + 4 <= whole <= MAX_FRAME:
            raise ServiceError("broken", "a frame of the event stream is damaged")
        if len(self._buffer) < whole:
            return None
        frame = bytes(self._buffer[:whole])
        del self._buffer[:whole]
        if crc32(frame[:-4]) != struct.unpack(">I", frame[-4:])[0]:
            raise ServiceError("broken", "a frame of the event stream is damaged")
        end = PRELUDE + headers
        try:
            return _frame_headers(frame[PRELUDE:end]), frame[end:-4]
        except (struct.error, IndexError, KeyError, ValueError):
            raise ServiceError("broken", "a frame of the event stream is damaged") from None


def _frame_headers(raw: bytes) -> dict[str, str]:
    """Return the headers that are strings; the others are ignored."""
    found: dict[str, str] = {}
    at = 0
    while at < len(raw):
        length = raw[at]
        name = raw[at + 1 : at + 1 + length].decode()
        kind = raw[at + 1 + length]
        at += 2 + length
        if kind in (_BYTES, _STRING):
            (size,) = struct.unpack_from(">H", raw, at)
            at += 2
            if kind == _STRING:
                found[name] = raw[at : at + size].decode()
        else:
            size = _SIZES[kind]
        at += size
    return found


def _frame_event(headers: dict[str, str], payload: bytes) -> tuple[str, bytes]:
    kind = headers.get(":message-type", "event")
    if kind == "event":
        name = headers.get(":event-type", "")
        return name, b'{"%s":%s}' % (name.encode(), payload or b"{}")
    name = headers.get(":exception-type") or headers.get(":error-code", "error")
    message = headers.get(":error-message", "") or _error_message(payload)
    return "error", json.dumps({"error": {"type": name, "message": message}}).encode()


def _error_message(payload: bytes) -> str:
    try:
        content: object = json.loads(payload)
    except ValueError:
        return payload[:400].decode("utf-8", "replace")
    return str(cast("dict[str, Any]", content).get("message") or "") if isinstance(content, dict) else ""


SIGNED_SERVICE = "bedrock"
"""The name of the service in signatures."""

PROFILE_VARIABLES = ("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
"""Variables that refer to keys outside the environment."""

INSTALL_COMMAND = "pip install 'teamwright[providers]'"


class AwsKeys(Struct, frozen=True):
    """Keys that are valid now."""

    access_key: str
    secret: str
    session_token: str = ""

    def __repr__(self) -> str:
        return repr_without(self, "secret", "session_token")


def find_region(env: Mapping[str, str]) -> str:
    """Return the region of the environment; empty when none is set."""
    return env.get("AWS_REGION", "").strip() or env.get("AWS_DEFAULT_REGION", "").strip()


def find_signing(env: Mapping[str, str]) -> tuple[Signing, str, str] | None:
    """Return how this environment signs requests, the variable that says so, and the secret (empty for a profile's).

    None where it does not say.
    """
    access = env.get("AWS_ACCESS_KEY_ID", "").strip()
    secret = env.get("AWS_SECRET_ACCESS_KEY", "").strip()
    if access and secret:
        signing = Signing(find_region(env), access, env.get("AWS_SESSION_TOKEN", "").strip())
        return signing, "AWS_SECRET_ACCESS_KEY", secret
    elsewhere = next((name for name in PROFILE_VARIABLES if env.get(name, "").strip()), "")
    if not elsewhere:
        return None
    return Signing(find_region(env), profile=env.get("AWS_PROFILE", "").strip() or "default"), elsewhere, ""


def require_signing(endpoint: Endpoint) -> None:
    """Raise CannotStart when the reader of profiles is not installed, or no region is named."""
    signing = endpoint.signing
    if signing is not None and signing.profile and find_spec("botocore") is None:
        name = endpoint.key_name
        raise CannotStart(
            "no-model",
            f"bedrock is to use {name}, and what reads it is not installed",
            looked_at=[("looked at", f"AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID: none set; {name} is")],
            do=[INSTALL_COMMAND, "export AWS_BEARER_TOKEN_BEDROCK=…   (an API key of Bedrock needs nothing installed)"],
        )
    if "REGION" in endpoint.base_url or (signing is not None and not signing.region):
        raise CannotStart(
            "no-model",
            "bedrock needs a region",
            looked_at=[("looked at", "AWS_REGION, AWS_DEFAULT_REGION: none set")],
            do=["export AWS_REGION=us-east-1          (or where your models are)"],
        )


def endpoint_keys(endpoint: Endpoint) -> AwsKeys:
    """Return the keys that sign for an endpoint now. Blocks where they are in a profile. Raises `ServiceError`."""
    signing = endpoint.signing
    if signing is None or not signing.profile:
        access, token = (signing.access_key, signing.session_token) if signing else ("", "")
        return AwsKeys(access, endpoint.credential, token)
    return profile_keys(signing.profile)


def profile_keys(profile: str) -> AwsKeys:
    """Return the keys of a profile, renewed shortly before they expire. Blocking. Raises `ServiceError`."""
    try:
        found = _open_session(profile).get_credentials()
        frozen = found.get_frozen_credentials() if found is not None else None
    except Exception as problem:  # botocore has many kinds of errors, with the same meaning here
        raise ServiceError("http", str(problem), ServiceAnswer(401)) from None
    if frozen is None or not frozen.secret_key:
        raise ServiceError("http", f"no keys in the profile {profile}", ServiceAnswer(401))
    return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")


def sign_request(
    outgoing: OutgoingRequest, keys: AwsKeys, region: str, *, method: str = "POST", at: datetime | None = None
) -> list[tuple[str, str]]:
    """Return the headers of a request with a signature. `at` defaults to now."""
    moment = at or datetime.now(UTC)
    stamp = moment.strftime("%Y%m%dT%H%M%SZ")
    day = moment.strftime("%Y%m%d")
    parts = urlsplit(outgoing.url)
    own = {"host": parts.netloc.rpartition("@")[2], "x-amz-date": stamp}
    if keys.session_token:
        own["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(own))
    canonical = "\n".join(
        [
            method,
            quote(parts.path or "/", safe="/-_.~"),
            "&".join(sorted(parts.query.split("&"))),
            *(f"{name}:{own[name]}" for name in sorted(own)),
            "",
            names,
            hashlib.sha256(outgoing.body).hexdigest(),
        ]
    )
    scope = f"{day}/{region}/{SIGNED_SERVICE}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for step in (day, region, SIGNED_SERVICE, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    proof = f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    sent = [(name, value) for name, value in own.items() if name != "host"]
    return [*outgoing.headers, *sent, ("authorization", proof)]


@cache
def _open_session(profile: str) -> Any:
    """Return the session of a profile. Never uses a machine's metadata service, which the user did not name."""
    botocore: Any = import_module("botocore.session")
    session = botocore.Session(profile=None if profile == "default" else profile)
    session.get_component("credential_provider").remove("iam-role")
    return session
