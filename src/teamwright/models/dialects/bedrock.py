"""Bedrock's Converse: one form for all models that are served there, signed requests, binary event streams.

Format: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html (seen 2026-11-21)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from teamwright.models.dialects.aws import keys_at, signed
from teamwright.models.dialects.canonical import (
    BY,
    Converted,
    Head,
    Message,
    Piece,
    marked,
    merged,
    result_blocks,
)
from teamwright.models.dialects.dialect import Event, Outgoing
from teamwright.models.dialects.event_stream import EventStreamReader
from teamwright.models.dialects.meaning import CallIds, Telling, inner, number
from teamwright.models.endpoint import Endpoint
from teamwright.models.ends import FILTER
from teamwright.models.model import Prefix
from teamwright.models.trouble import Trouble
from teamwright.protocol.blocks import Block, encode

OURS = "bedrock"
MARKED_MESSAGES = 2
"""How many of the newest user messages carry a cache point."""

_POINT: Event = {"cachePoint": {"type": "default"}}
_STOPS = {"guardrail_intervened": FILTER, "content_filtered": FILTER}
_PARAMETERS = {"temperature": "temperature", "top_p": "topP"}
_UNREADABLE = frozenset({"malformed_model_output", "malformed_tool_use"})
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}


class Bedrock:
    """See `Dialect`. `caches`: whether the model takes cache points wherever we set them."""

    def __init__(self, endpoint: Endpoint, model: str, *, caching: bool) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url(f"/model/{quote(model, safe='')}/converse-stream")
        self._caching = caching and "anthropic.claude" in model
        self._converted = Converted(self._head, _pieces)

    async def outgoing(self, prefix: Prefix, items: Sequence[bytes]) -> Outgoing:
        """The request, joined of parts that were encoded before, and signed where the key signs."""
        pieces = self._converted.pieces(items)
        messages = merged(_with_points(pieces) if self._caching else pieces, b"content")
        body = b"".join((self._converted.head(prefix), messages, b"]}"))
        return Outgoing(self._url, await self._headers(body), body)

    def reader(self) -> EventStreamReader:
        """Binary frames."""
        return EventStreamReader()

    def translator(self, items: Sequence[bytes]) -> BedrockAnswer:
        """For one answer."""
        return BedrockAnswer(CallIds(items))

    async def _headers(self, body: bytes) -> list[tuple[str, str]]:
        endpoint = self._endpoint
        if endpoint.signing is None:
            return endpoint.headers()
        stays = not endpoint.signing.profile
        keys = keys_at(endpoint) if stays else await asyncio.to_thread(keys_at, endpoint)
        return signed(Outgoing(self._url, endpoint.headers(), body), keys, endpoint.signing.region)

    def _head(self, head: Head) -> bytes:
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
            fields["system"] = self._marked(head.system, [{"text": part["text"]} for part in head.system])
        if head.tools:
            tools: dict[str, Any] = {"tools": self._marked(head.tools, [_tool(tool) for tool in head.tools])}
            fields["toolConfig"] = tools | _choice(head.tool_choice)
        return (encode(fields)[:-1] + b"," if fields else b"{") + b'"messages":['

    def _marked(self, parts: Sequence[Mapping[str, Any]], made: list[Event]) -> list[Event]:
        """The parts with a cache point after each that has a breakpoint."""
        pairs = [
            (one, _POINT) if self._caching and marked(part) else (one,) for part, one in zip(parts, made, strict=True)
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


def _with_points(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with a cache point behind the newest user messages."""
    points = list(pieces)
    left = MARKED_MESSAGES
    for place in range(len(points) - 1, -1, -1):
        last_of_message = place + 1 == len(points) or points[place + 1].role != points[place].role
        if points[place].role == "user" and last_of_message and left:
            points[place] = Piece("user", points[place].encoded + b"," + encode(_POINT))
            left -= 1
    return points


def _pieces(message: Message) -> Iterable[Piece]:
    parts = [part for block in message.blocks if (part := _part(block)) is not None]
    if parts:
        yield Piece(message.role, b",".join(map(encode, parts)))


def _part(block: Block) -> Event | None:
    kind = block.get("type")
    if kind == "text":
        return {"text": block["text"]}
    if kind == "image":
        return _image(block)
    if kind == "tool_use":
        return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": inner(block, "input")}}
    if kind == "tool_result":
        return {"toolResult": _result(block)}
    if block.get(BY) != OURS:
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
    """What one event stream means."""

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._telling = Telling()
        self._counted = self._unreadable = False

    @property
    def trailing(self) -> bool:
        """The usage comes behind the end."""
        return not self._counted

    def take(self, event: Event) -> Iterable[Event]:
        """One event: an object with its name as only key."""
        for name, said in event.items():
            if name in _HEARD:
                _HEARD[name](self, said)
        return self._telling.told()

    def block(self, said: Event) -> None:
        """A call begins; what else begins does with its first piece."""
        if use := inner(inner(said, "start"), "toolUse"):
            self._telling.call(said["contentBlockIndex"], self._ids.of(use.get("toolUseId")), use.get("name"))

    def delta(self, said: Event) -> None:
        """A block grows."""
        place, delta = said["contentBlockIndex"], inner(said, "delta")
        self._telling.text(place, str(delta.get("text") or ""))
        self._telling.arguments(place, inner(delta, "toolUse").get("input"))
        thought = inner(delta, "reasoningContent")
        self._telling.thinking(place, str(thought.get("text") or ""), OURS)
        if thought.get("signature"):
            self._telling.signature(place, thought["signature"], OURS)
        if thought.get("redactedContent") and not self._telling.has(place):
            self._telling.open(place, {"type": "redacted_thinking", "data": thought["redactedContent"], BY: OURS})

    def stop(self, said: Event) -> None:
        """The answer is whole. Raises `Trouble` for one that the service could not read itself."""
        reason = str(said.get("stopReason") or "")
        if reason in _UNREADABLE:
            self._unreadable = True  # the counts come after it
            return
        self._telling.end(_STOPS.get(reason, reason))

    def metadata(self, said: Event) -> None:
        """What was used."""
        usage = inner(said, "usage")
        self._counted = True
        read, write = number(usage, "cacheReadInputTokens"), number(usage, "cacheWriteInputTokens")
        self._telling.count(number(usage, "inputTokens"), number(usage, "outputTokens"), read, write)
        if self._unreadable:
            trouble = Trouble("broken", "the model wrote a call that cannot be read")
            trouble.events = self._telling.told()
            raise trouble


_HEARD: dict[str, Callable[[BedrockAnswer, Event], None]] = {
    "contentBlockStart": BedrockAnswer.block,
    "contentBlockDelta": BedrockAnswer.delta,
    "messageStop": BedrockAnswer.stop,
    "metadata": BedrockAnswer.metadata,
}
"""Which of its events say something; the others are signs of progress."""
