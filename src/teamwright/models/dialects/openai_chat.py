"""Chat Completions: what most servers speak that do not speak the Messages API.

Servers differ in what they leave out; what one of them may not know is not sent. Format:
https://developers.openai.com/api/reference/resources/chat (seen 2026-11-21)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from teamwright.models.dialects.canonical import (
    Converted,
    Head,
    Message,
    Piece,
    data_url,
    given_to,
    images,
    result_images,
    result_text,
)
from teamwright.models.dialects.dialect import Event, Outgoing
from teamwright.models.dialects.meaning import CallIds, Telling, given_text, inner, listed, number
from teamwright.models.endpoint import Endpoint
from teamwright.models.ends import FILTER
from teamwright.models.model import Prefix
from teamwright.models.sse import SseReader
from teamwright.protocol.blocks import Block, encode

BY = "openai-chat"
NEWER_HOSTS = (".openai.com", ".azure.com")
"""Who refuses `max_tokens`, which everybody else knows."""

REASONING_HOSTS = (".deepseek.com",)
"""Services that refuse a call in the history without `reasoning_content`, be it empty.
https://api-docs.deepseek.com/guides/thinking_mode (seen 2026-11-23)"""

_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": FILTER,
    # other servers' own words
    "eos_token": "end_turn",
    "model_length": "max_tokens",
    "sensitive": FILTER,
}
_CHOICES: Mapping[str, Any] = {"auto": "auto", "any": "required", "none": "none"}


class OpenAiChat:
    """See `Dialect`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        host = urlsplit(endpoint.base_url).hostname or ""
        self._limit = "max_completion_tokens" if host.endswith(NEWER_HOSTS) else "max_tokens"
        self._by = f"{BY}:{endpoint.provider}"
        self._demands = host.endswith(REASONING_HOSTS)
        self._converted = Converted(self._head, self._pieces)

    async def outgoing(self, prefix: Prefix, items: Sequence[bytes]) -> Outgoing:
        """The request, joined of parts that were encoded before."""
        head, messages = self._converted.head(prefix), self._converted.pieces(items)
        body = b"".join((head, b",".join(piece.encoded for piece in messages), b"]}"))
        return Outgoing(self._endpoint.url(self._endpoint.facts.path), self._endpoint.headers(), body)

    def reader(self) -> SseReader:
        """Server-sent events."""
        return SseReader()

    def translator(self, items: Sequence[bytes]) -> ChatAnswer:
        """For one answer."""
        return ChatAnswer(CallIds(items), self._by)

    def _pieces(self, message: Message) -> Iterable[Piece]:
        if message.role != "assistant":
            return _told(message.blocks)
        own = [block["thinking"] for block in message.blocks if block.get("by") == self._by]
        return _said(message.blocks, "".join(own) if own or self._demands else None)

    def _head(self, head: Head) -> bytes:
        fields: dict[str, Any] = {"model": head.model, "stream": True, "stream_options": {"include_usage": True}}
        if head.max_tokens:
            fields[self._limit] = head.max_tokens
        if head.effort:
            fields["reasoning_effort"] = head.effort
        if head.tools:
            fields["tools"] = [_tool(tool) for tool in head.tools]
            fields |= _choice(head.tool_choice)
        fields |= head.sampling
        begin = encode(fields)[:-1] + b',"messages":['
        system = head.instructions
        return begin + encode({"role": "system", "content": system}) + b"," if system else begin


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    about = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", "function": {**about, "parameters": tool.get("input_schema") or {"type": "object"}}}


def _choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(choice.get("type"))
    if kind == "tool":
        said: dict[str, Any] = {"tool_choice": {"type": "function", "function": {"name": choice["name"]}}}
    else:
        said = {"tool_choice": _CHOICES[kind]} if kind in _CHOICES else {}
    if choice.get("disable_parallel_tool_use"):
        said["parallel_tool_calls"] = False
    return said


def _told(blocks: list[Block]) -> Iterable[Piece]:
    """Results first, each a message of its own; then the texts, and images of both."""
    seen: list[Block] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            found = result_images(block)
            seen += found
            yield _message({"role": "tool", "tool_call_id": block["tool_use_id"], "content": _result(block, found)})
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    seen += images(blocks)
    if seen:
        parts: list[Event] = [{"type": "text", "text": text} for text in texts]
        parts += [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in seen]
        yield _message({"role": "user", "content": parts})
    elif texts:
        yield _message({"role": "user", "content": "\n\n".join(texts)})


def _result(block: Block, found: list[Block]) -> str:
    text = result_text(block)
    if found:
        text = f"{text}\n(its {'image follows' if len(found) == 1 else 'images follow'})".strip()
    return f"[failed] {text}" if block.get("is_error") else text


def _said(blocks: list[Block], thought: str | None) -> Iterable[Piece]:
    """An answer. `thought` is this service's own, and goes back with calls: some refuse calls without it."""
    text = "\n\n".join(block["text"] for block in blocks if block.get("type") == "text")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": given_to(block)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if calls:
        reasoning = {} if thought is None else {"reasoning_content": thought}
        yield _message({"role": "assistant", "content": text or None, **reasoning, "tool_calls": calls})
    elif text:
        yield _message({"role": "assistant", "content": text})


def _message(message: Event) -> Piece:
    return Piece(message["role"], encode(message))


class ChatAnswer:
    """What one stream of chunks means."""

    def __init__(self, ids: CallIds, by: str = BY) -> None:
        self._ids = ids
        self._by = by
        self._telling = Telling()
        self._begun = self._refused = self._counted = False
        self._calls: dict[object, _Call] = {}
        self._newest: _Call | None = None

    @property
    def trailing(self) -> bool:
        """The usage comes in a chunk of its own, behind the end."""
        return not self._counted

    def take(self, event: Event) -> Iterable[Event]:
        """One chunk."""
        telling = self._telling
        if not self._begun and event.get("model"):
            self._begun = True
            telling.begin(event["model"])
        if usage := inner(event, "usage"):
            self._count(usage)
        for choice in listed(event, "choices")[:1]:
            # A server that does not stream sends a `message`.
            self._delta(inner(choice, "delta") or inner(choice, "message"))
            if choice.get("finish_reason") and not telling.ended:
                self._end(str(choice["finish_reason"]))
        return telling.told()

    def _delta(self, delta: Event) -> None:
        own, other = delta.get("reasoning_content"), delta.get("reasoning")
        if isinstance(own, str) and own:
            self._telling.thinking("thinking", own, self._by)
        elif isinstance(other, str):
            self._telling.thinking("thinking", other, BY)
        content: object = delta.get("content")
        parts = "".join(str(part.get("text") or "") for part in listed(delta, "content"))
        self._telling.text("text", content if isinstance(content, str) else parts)
        if delta.get("refusal"):
            self._refused = True
            self._telling.text("text", delta["refusal"])
        for call in listed(delta, "tool_calls"):
            self._call(call)
        if function := inner(delta, "function_call"):
            self._call({"index": 0, "function": function})

    def _call(self, came: Event) -> None:
        """A piece of a call. Some servers number none of them, some give all of one answer the number 0."""
        about = inner(came, "function")
        id, name, index = came.get("id") or "", about.get("name") or "", came.get("index")
        call = self._newest if index is None else self._calls.get(index)
        if call is None or call.is_followed_by(id, name, numbered=index is not None):
            call = self._calls[index] = _Call()
        self._newest = call
        call.came = call.came or id
        self._grow(call, name, about.get("arguments"))

    def _grow(self, call: _Call, name: str, arguments: object) -> None:
        given = call.take(arguments)
        if not self._telling.has(call):
            if not name:
                return  # kept until it is known what is called
            self._telling.call(call, self._ids.of(call.came), name)
            given = call.given
        self._telling.arguments(call, given)

    def _count(self, usage: Event) -> None:
        self._counted = True
        read = number(usage, "prompt_tokens_details", "cached_tokens") or number(usage, "prompt_cache_hit_tokens")
        write = number(usage, "prompt_tokens_details", "cache_write_tokens")
        fresh = max(0, number(usage, "prompt_tokens") - read - write)
        self._telling.count(fresh, number(usage, "completion_tokens"), read, write)

    def _end(self, finish: str) -> None:
        stop = _STOPS.get(finish, finish)
        if self._refused:
            stop = "refusal"
        elif stop in ("end_turn", "tool_use"):
            # Some say `stop` behind calls, some `tool_calls` without any.
            stop = "tool_use" if self._telling.calls else "end_turn"
        self._telling.end(stop)


class _Call:
    """A call while its pieces come."""

    __slots__ = ("came", "given")

    def __init__(self) -> None:
        self.came = ""
        self.given = ""

    def take(self, arguments: object) -> str:
        """A piece of the arguments as text."""
        piece = given_text(arguments)
        self.given += piece
        return piece

    def is_followed_by(self, id: str, name: str, *, numbered: bool) -> bool:
        """Whether a piece with this id and name begins another call, although it comes under the same number."""
        if not name or (id and id == self.came):
            return False
        if id and self.came:
            return True
        return not numbered or _is_whole(self.given)


def _is_whole(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
