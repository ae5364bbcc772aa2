"""The format of Chat Completions, the API of most servers without the Messages API.

Servers differ in the fields that they support; optional fields that a server may not know are not sent. Format:
https://developers.openai.com/api/reference/resources/chat (seen 2026-11-21)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import CONTENT_FILTER, Prefix
from teamwright.models.providers.api_format import (
    AnswerEvents,
    ConversionCache,
    DecodedMessage,
    EncodedMessage,
    Event,
    OutgoingRequest,
    PrefixFields,
    answer_format,
    block_number,
    call_arguments,
    content_list,
    content_object,
    content_text,
    count_field,
    data_url,
    given_text,
    message_images,
    object_field,
    object_list,
    result_images,
    result_text,
)
from teamwright.processes.http import SseReader
from teamwright.protocol.messages import Block, encode

API_NAME = "openai-chat"
NEWER_HOSTS = (".openai.com", ".azure.com")
"""Hosts that refuse `max_tokens`, which all other servers support."""

REASONING_HOSTS = (".deepseek.com",)
"""Services that refuse a call in the history without `reasoning_content`, be it empty.
https://api-docs.deepseek.com/guides/thinking_mode (seen 2026-11-23)"""

_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": CONTENT_FILTER,
    # stop reasons of other servers
    "eos_token": "end_turn",
    "model_length": "max_tokens",
    "sensitive": CONTENT_FILTER,
}
_CHOICES: Mapping[str, Any] = {"auto": "auto", "any": "required", "none": "none"}


class OpenAiChat:
    """See `ApiFormat`."""

    def __init__(self, endpoint: Endpoint, *, reports_progress: bool = False) -> None:
        """Create the format. `reports_progress`: the server is llama.cpp, which is asked how far it has read a prompt;
        others refuse a field that they do not know.
        """
        self._endpoint = endpoint
        self._reports_progress = reports_progress
        host = urlsplit(endpoint.base_url).hostname or ""
        self._limit = "max_completion_tokens" if host.endswith(NEWER_HOSTS) else "max_tokens"
        self._by = f"{API_NAME}:{endpoint.provider}"
        self._requires_reasoning = host.endswith(REASONING_HOSTS)
        self._conversions = ConversionCache(self._head, self._pieces)

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return the request, joined from encoded parts."""
        head = self._conversions.head(prefix)
        messages = self._conversions.pieces(items)
        body = b"".join((head, b",".join(piece.encoded for piece in messages), b"]}"))
        return OutgoingRequest(self._endpoint.url(self._endpoint.facts.path), self._endpoint.headers(), body)

    def reader(self) -> SseReader:
        """Return a reader of server-sent events."""
        return SseReader()

    def translator(self) -> ChatAnswer:
        """Return a translator for one answer."""
        return ChatAnswer(self._by)

    def _pieces(self, message: DecodedMessage) -> Iterable[EncodedMessage]:
        if message.role != "assistant":
            return _user_messages(message.blocks)
        own = [block["thinking"] for block in message.blocks if block.get("by") == self._by]
        return _assistant_messages(message.blocks, "".join(own) if own or self._requires_reasoning else None)

    def _head(self, head: PrefixFields) -> bytes:
        fields: dict[str, Any] = {"model": head.model, "stream": True, "stream_options": {"include_usage": True}}
        if self._reports_progress:
            fields["return_progress"] = True
        if head.max_tokens:
            fields[self._limit] = head.max_tokens
        if head.effort:
            fields["reasoning_effort"] = head.effort
        if head.tools:
            fields["tools"] = [_tool(tool) for tool in head.tools]
            fields |= _choice(head.tool_choice)
        if head.answer_schema:
            fields["response_format"] = {"type": "json_schema", "json_schema": answer_format(head.answer_schema)}
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
        fields: dict[str, Any] = {"tool_choice": {"type": "function", "function": {"name": choice["name"]}}}
    else:
        fields = {"tool_choice": _CHOICES[kind]} if kind in _CHOICES else {}
    if choice.get("disable_parallel_tool_use"):
        fields["parallel_tool_calls"] = False
    return fields


def _user_messages(blocks: list[Block]) -> Iterable[EncodedMessage]:
    """Yield the results first, each a separate message; then the texts, and images of both."""
    seen: list[Block] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            found = result_images(block)
            seen += found
            yield _message({"role": "tool", "tool_call_id": block["tool_use_id"], "content": _result(block, found)})
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    seen += message_images(blocks)
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


def _assistant_messages(blocks: list[Block], thought: str | None) -> Iterable[EncodedMessage]:
    """Yield an answer. `thought` is this service's own, and goes back with calls: some services refuse calls without
    it."""
    text = "\n\n".join(block["text"] for block in blocks if block.get("type") == "text")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": call_arguments(block)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if calls:
        reasoning = {} if thought is None else {"reasoning_content": thought}
        yield _message({"role": "assistant", "content": text or None, **reasoning, "tool_calls": calls})
    elif text:
        yield _message({"role": "assistant", "content": text})


def _message(message: Event) -> EncodedMessage:
    return EncodedMessage(message["role"], encode(message))


class ChatAnswer:
    """A translator of one stream of chunks."""

    def __init__(self, by: str = API_NAME) -> None:
        self._by = by
        self._events = AnswerEvents()
        self._begun = self._refused = self._counted = False
        self._calls: dict[object, _OpenCall] = {}
        self._newest: _OpenCall | None = None

    @property
    def has_trailing(self) -> bool:
        """True until the usage was received, which follows the end in a separate chunk."""
        return not self._counted

    def translate(self, event: Event) -> Iterable[Event]:
        """Return the translation of one chunk."""
        telling = self._events
        if progress := object_field(event, "prompt_progress"):
            telling.prompt_progress(progress)
        elif not self._begun and event.get("model"):
            self._begun = True
            telling.begin(event["model"])
        if usage := object_field(event, "usage"):
            self._count(usage)
        for choice in object_list(event, "choices")[:1]:
            # A server that does not stream sends a `message`.
            self._delta(content_object(choice, "delta") or content_object(choice, "message"))
            finish: object = choice.get("finish_reason")
            if finish and isinstance(finish, str) and not telling.has_ended:
                self._end(finish)
        return telling.take_events()

    def _delta(self, delta: Event) -> None:
        own, other = delta.get("reasoning_content"), delta.get("reasoning")
        if isinstance(own, str) and own:
            self._events.thinking("thinking", own, self._by)
        elif isinstance(other, str):
            self._events.thinking("thinking", other, API_NAME)
        content: object = delta.get("content")
        if isinstance(content, str):
            self._events.text("text", content)
        else:
            self._events.text("text", "".join(str(part.get("text") or "") for part in content_list(delta, "content")))
        if delta.get("refusal"):
            self._refused = True
            self._events.text("text", content_text(delta, "refusal"))
        for call in content_list(delta, "tool_calls"):
            self._call(call)
        if function := content_object(delta, "function_call"):
            self._call({"index": 0, "function": function})

    def _call(self, came: Event) -> None:
        """Add a piece of a call. Some servers omit the index, some give index 0 to all calls of an answer."""
        about = content_object(came, "function")
        id, name, index = came.get("id") or "", about.get("name") or "", block_number(came.get("index"))
        newest = self._newest
        call = newest if index is None else self._calls.get(index)
        if call is None and not (id or name) and newest is not None and not _is_whole(newest.arguments):
            call = newest
        if call is None or call.is_followed_by(id, name, numbered=index is not None):
            call = self._calls[index] = _OpenCall()
        self._newest = call
        call.id = call.id or id
        call.has_name = call.has_name or bool(name)
        self._grow(call, name, about.get("arguments"))

    def _grow(self, call: _OpenCall, name: str, arguments: object) -> None:
        piece = call.take(arguments)
        if not self._events.has(call):
            if not name:
                return  # kept until the name of the tool is known
            self._events.call(call, call.id, name)
            piece = call.arguments
        self._events.arguments(call, piece)

    def _count(self, usage: Event) -> None:
        self._counted = True
        read = count_field(usage, "prompt_tokens_details", "cached_tokens") or count_field(
            usage, "prompt_cache_hit_tokens"
        )
        write = count_field(usage, "prompt_tokens_details", "cache_write_tokens")
        fresh = max(0, count_field(usage, "prompt_tokens") - read - write)
        self._events.count(fresh, count_field(usage, "completion_tokens"), read, write)

    def _end(self, finish: str) -> None:
        for call in self._calls.values():
            if not self._events.has(call) and (call.id or call.arguments):
                # The name never came, and the model must learn that nothing was called.
                self._events.call(call, call.id, "")
                self._events.arguments(call, call.arguments)
        stop = _STOPS.get(finish, finish)
        if self._refused:
            stop = "refusal"
        elif stop in ("end_turn", "tool_use"):
            # Some servers report `stop` after calls, some `tool_calls` without any.
            stop = "tool_use" if self._events.calls else "end_turn"
        self._events.end(stop)


class _OpenCall:
    """A call whose pieces are still arriving."""

    __slots__ = ("arguments", "has_name", "id")

    def __init__(self) -> None:
        self.has_name = False
        self.id = ""
        self.arguments = ""

    def take(self, arguments: object) -> str:
        """Append a piece of the arguments, and return it as text."""
        piece = given_text(arguments)
        self.arguments += piece
        return piece

    def is_followed_by(self, id: str, name: str, *, numbered: bool) -> bool:
        """Return True when a piece with this id and name begins another call with the same index."""
        if not name or (id and id == self.id):
            return False
        if id and self.id:
            return True
        return self.has_name and (not numbered or _is_whole(self.arguments))


def _is_whole(text: str) -> bool:
    try:
        return text.rstrip().endswith("}") and isinstance(json.loads(text), dict)
    except ValueError:
        return False
