"""The format of OpenAI's Responses API, used without server-side storage: reasoning is sent back encrypted.

Its models refuse tools with reasoning in Chat Completions. Format:
https://developers.openai.com/api/reference/resources/responses (seen 2026-11-21)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from teamwright.models.endpoint import Endpoint
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
    call_arguments,
    count_field,
    data_url,
    object_field,
    object_list,
    result_images,
    result_text,
    thinking_block,
)
from teamwright.models.service_error import ServiceAnswer, ServiceError, parse_event_error
from teamwright.processes.http import SseReader
from teamwright.protocol.messages import Block, encode

API_NAME = "openai-responses"

_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": CONTENT_FILTER}
_CHOICES: Mapping[str, Any] = {"auto": "auto", "any": "required", "none": "none"}


class OpenAiResponses:
    """See `ApiFormat`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._conversions = ConversionCache(_head, _pieces)

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return the request, joined from encoded parts."""
        head, pieces = self._conversions.head(prefix), self._conversions.pieces(items)
        body = b"".join((head, b",".join(piece.encoded for piece in pieces), b"]}"))
        return OutgoingRequest(self._endpoint.url(self._endpoint.facts.path), self._endpoint.headers(), body)

    def reader(self) -> SseReader:
        """Return a reader of server-sent events."""
        return SseReader()

    def translator(self) -> ResponsesAnswer:
        """Return a translator for one answer."""
        return ResponsesAnswer()


def _head(head: PrefixFields) -> bytes:
    fields: dict[str, Any] = {"model": head.model, "stream": True, "store": False}
    if head.max_tokens:
        fields["max_output_tokens"] = head.max_tokens
    if head.system:
        fields["instructions"] = head.instructions
    if head.tools:
        fields["tools"] = [_tool(tool) for tool in head.tools]
        fields |= _choice(head.tool_choice)
        # Prompts with the same beginning go to one machine, which has them in its cache.
        fields["prompt_cache_key"] = hashlib.sha256(encode(fields["tools"])).hexdigest()[:32]
    if reasoning := {**head.thinking, **({"effort": head.effort} if head.effort else {})}:
        fields["reasoning"] = reasoning
    fields |= head.sampling
    return encode(fields)[:-1] + b',"input":['


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = tool.get("input_schema") or {"type": "object"}
    about = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", **about, "parameters": schema, "strict": False}


def _choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(choice.get("type"))
    fields: dict[str, Any] = {"tool_choice": _CHOICES[kind]} if kind in _CHOICES else {}
    if kind == "tool":
        fields["tool_choice"] = {"type": "function", "name": choice["name"]}
    if choice.get("disable_parallel_tool_use"):
        fields["parallel_tool_calls"] = False
    return fields


def _pieces(message: DecodedMessage) -> Iterable[EncodedMessage]:
    make = _assistant_items if message.role == "assistant" else _user_items
    for item in make(message.blocks):
        yield EncodedMessage(message.role, encode(item))


def _user_items(blocks: list[Block]) -> Iterable[Event]:
    parts: list[Event] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_result":
            yield {"type": "function_call_output", "call_id": block["tool_use_id"], "output": _output(block)}
        elif kind == "text":
            parts.append({"type": "input_text", "text": block["text"]})
        elif kind == "image" and block["source"].get("type") == "base64":
            parts.append(_image(block))
    if parts:
        yield {"role": "user", "content": parts}


def _output(block: Block) -> str | list[Event]:
    text = result_text(block)
    text = f"[failed] {text}" if block.get("is_error") else text
    found = result_images(block)
    if not found:
        return text
    before: list[Event] = [{"type": "input_text", "text": text}] if text else []
    return [*before, *map(_image, found)]


def _image(block: Block) -> Event:
    return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}


def _assistant_items(blocks: list[Block]) -> Iterable[Event]:
    """Yield an answer. Reasoning without a following item is left out: the API refuses it."""
    last = max((at for at, block in enumerate(blocks) if block.get("type") in ("text", "tool_use")), default=-1)
    for block in blocks[: last + 1]:
        kind = block.get("type")
        if kind == "text":
            yield {"role": "assistant", "content": block["text"]}
        elif kind == "tool_use":
            arguments = call_arguments(block)
            yield {"type": "function_call", "call_id": block["id"], "name": block["name"], "arguments": arguments}
        elif kind == "thinking" and block.get(PROVIDER_KEY) == API_NAME and block.get("signature"):
            summary = [{"type": "summary_text", "text": block["thinking"]}] if block.get("thinking") else []
            known = {"id": block["id"]} if block.get("id") else {}
            yield {"type": "reasoning", **known, "summary": summary, "encrypted_content": block["signature"]}


class ResponsesAnswer:
    """A translator of one stream of events."""

    has_trailing = False

    def __init__(self) -> None:
        self._events = AnswerEvents()
        self._refused = False
        self._grown: set[object] = set()

    def translate(self, event: Event) -> Iterable[Event]:
        """Return the translation of one event."""
        handler = _HANDLERS.get(str(event.get("type")))
        if handler is not None and not self._events.has_ended:
            handler(self, event)
        return self._events.take_events()

    def created(self, event: Event) -> None:
        """Start the answer of a model."""
        self._events.begin(event["response"].get("model"))

    def added(self, event: Event) -> None:
        """Open a call or reasoning; text is opened with its first piece."""
        item, place = event["item"], event["output_index"]
        if item["type"] == "function_call":
            self._events.call(place, item.get("call_id"), item.get("name"))
            self._arguments(place, item.get("arguments"))
        elif item["type"] == "reasoning":
            self._events.open(place, {**thinking_block(API_NAME), "id": item.get("id") or ""})

    def text(self, event: Event) -> None:
        """Add text."""
        self._events.text((event["output_index"], event.get("content_index")), str(event.get("delta") or ""))

    def refusal(self, event: Event) -> None:
        """Add text of a refusal."""
        self._refused = True
        self.text(event)

    def thought(self, event: Event) -> None:
        """Add reasoning that may be shown, in parts that are paragraphs."""
        place, part = event["output_index"], (event["output_index"], event.get("summary_index"), "thought")
        between = "\n\n" if part not in self._grown and place in self._grown else ""
        self._grown |= {place, part}
        self._events.thinking(place, between + str(event.get("delta") or ""), API_NAME)

    def argument(self, event: Event) -> None:
        """Add arguments of a call."""
        self._arguments(event["output_index"], event.get("delta"))

    def _arguments(self, place: object, value: object) -> None:
        if value:
            self._grown.add(place)
            self._events.arguments(place, value)

    def done(self, event: Event) -> None:
        """Complete an item. A server that sent no pieces sends all of it here."""
        item, place = event["item"], event["output_index"]
        if not self._events.has(place) and item["type"] in ("function_call", "reasoning"):
            self.added({**event, "item": {**item, "arguments": ""}})
        if item["type"] == "function_call" and place not in self._grown:
            self._arguments(place, item.get("arguments"))
        elif item["type"] == "reasoning" and item.get("encrypted_content"):
            self._events.signature(place, item["encrypted_content"], API_NAME)
        elif item["type"] == "message":
            self._message(place, object_list(item, "content"))

    def _message(self, place: object, parts: Iterable[Event]) -> None:
        for index, part in enumerate(parts):
            self._refused |= part.get("type") == "refusal"
            if not self._events.has((place, index)):
                self._events.text((place, index), str(part.get("text") or part.get("refusal") or ""))

    def completed(self, event: Event) -> None:
        """End the answer, complete or incomplete."""
        response = event["response"]
        usage = object_field(response, "usage")
        read = count_field(usage, "input_tokens_details", "cached_tokens")
        write = count_field(usage, "input_tokens_details", "cache_write_tokens")
        fresh = max(0, count_field(usage, "input_tokens") - read - write)
        self._events.count(fresh, count_field(usage, "output_tokens"), read, write)
        why = str(object_field(response, "incomplete_details").get("reason") or "")
        status = str(response.get("status") or "completed")
        if status != "completed":
            stop = _INCOMPLETE.get(why, why or status)
        elif self._refused:
            stop = "refusal"
        else:
            stop = "tool_use" if self._events.calls else "end_turn"
        self._events.end(stop)

    def failed(self, event: Event) -> None:
        """Raise the error of a failed answer."""
        response = event["response"]
        if not response.get("error"):
            raise ServiceError("http", "the response failed", ServiceAnswer(500))
        raise parse_event_error(encode({"error": response["error"]}), "")


_HANDLERS: dict[str, Callable[[ResponsesAnswer, Event], None]] = {
    "response.created": ResponsesAnswer.created,
    "response.output_item.added": ResponsesAnswer.added,
    "response.output_text.delta": ResponsesAnswer.text,
    "response.refusal.delta": ResponsesAnswer.refusal,
    "response.reasoning_summary_text.delta": ResponsesAnswer.thought,
    "response.reasoning_text.delta": ResponsesAnswer.thought,
    "response.function_call_arguments.delta": ResponsesAnswer.argument,
    "response.output_item.done": ResponsesAnswer.done,
    "response.completed": ResponsesAnswer.completed,
    "response.incomplete": ResponsesAnswer.completed,
    "response.failed": ResponsesAnswer.failed,
}
"""The events with content; the others are signs of progress."""
