"""The Responses API, OpenAI's own: stateless, nothing is stored there, reasoning travels encrypted with us.

Its models refuse tools with reasoning in Chat Completions. Format:
https://developers.openai.com/api/reference/resources/responses (seen 2026-11-21)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from teamwright.models.dialects.canonical import (
    BY,
    Converted,
    Head,
    Message,
    Piece,
    data_url,
    given_to,
    result_images,
    result_text,
)
from teamwright.models.dialects.dialect import Event, Outgoing
from teamwright.models.dialects.meaning import CallIds, Telling, inner, listed, number, thinking_block
from teamwright.models.endpoint import Endpoint
from teamwright.models.ends import FILTER
from teamwright.models.model import Prefix
from teamwright.models.sse import SseReader
from teamwright.models.trouble import Answered, Trouble, event_trouble
from teamwright.protocol.blocks import Block, encode

OURS = "openai-responses"

_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": FILTER}
_CHOICES: Mapping[str, Any] = {"auto": "auto", "any": "required", "none": "none"}


class OpenAiResponses:
    """See `Dialect`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._converted = Converted(_head, _pieces)

    async def outgoing(self, prefix: Prefix, items: Sequence[bytes]) -> Outgoing:
        """The request, joined of parts that were encoded before."""
        head, pieces = self._converted.head(prefix), self._converted.pieces(items)
        body = b"".join((head, b",".join(piece.encoded for piece in pieces), b"]}"))
        return Outgoing(self._endpoint.url(self._endpoint.facts.path), self._endpoint.headers(), body)

    def reader(self) -> SseReader:
        """Server-sent events."""
        return SseReader()

    def translator(self, items: Sequence[bytes]) -> ResponsesAnswer:
        """For one answer."""
        return ResponsesAnswer(CallIds(items))


def _head(head: Head) -> bytes:
    fields: dict[str, Any] = {"model": head.model, "stream": True, "store": False}
    if head.max_tokens:
        fields["max_output_tokens"] = head.max_tokens
    if head.system:
        fields["instructions"] = head.instructions
    if head.tools:
        fields["tools"] = [_tool(tool) for tool in head.tools]
        fields |= _choice(head.tool_choice)
        # Prompts that begin alike go to one machine, which has them in its cache.
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
    said: dict[str, Any] = {"tool_choice": _CHOICES[kind]} if kind in _CHOICES else {}
    if kind == "tool":
        said["tool_choice"] = {"type": "function", "name": choice["name"]}
    if choice.get("disable_parallel_tool_use"):
        said["parallel_tool_calls"] = False
    return said


def _pieces(message: Message) -> Iterable[Piece]:
    make = _said if message.role == "assistant" else _told
    for item in make(message.blocks):
        yield Piece(message.role, encode(item))


def _told(blocks: list[Block]) -> Iterable[Event]:
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


def _said(blocks: list[Block]) -> Iterable[Event]:
    """An answer. Reasoning is left out when nothing comes after it: the API refuses such an item."""
    last = max((at for at, block in enumerate(blocks) if block.get("type") in ("text", "tool_use")), default=-1)
    for block in blocks[: last + 1]:
        kind = block.get("type")
        if kind == "text":
            yield {"role": "assistant", "content": block["text"]}
        elif kind == "tool_use":
            given = given_to(block)
            yield {"type": "function_call", "call_id": block["id"], "name": block["name"], "arguments": given}
        elif kind == "thinking" and block.get(BY) == OURS and block.get("signature"):
            summary = [{"type": "summary_text", "text": block["thinking"]}] if block.get("thinking") else []
            known = {"id": block["id"]} if block.get("id") else {}
            yield {"type": "reasoning", **known, "summary": summary, "encrypted_content": block["signature"]}


class ResponsesAnswer:
    """What one stream of events means."""

    trailing = False

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._telling = Telling()
        self._refused = False
        self._grown: set[object] = set()

    def take(self, event: Event) -> Iterable[Event]:
        """One event."""
        hear = _HEARD.get(str(event.get("type")))
        if hear is not None and not self._telling.ended:
            hear(self, event)
        return self._telling.told()

    def created(self, event: Event) -> None:
        """Who answers."""
        self._telling.begin(event["response"].get("model"))

    def added(self, event: Event) -> None:
        """A call or some reasoning begins; text does with its first piece."""
        item, place = event["item"], event["output_index"]
        if item["type"] == "function_call":
            self._telling.call(place, self._ids.of(item.get("call_id")), item.get("name"))
            self._arguments(place, item.get("arguments"))
        elif item["type"] == "reasoning":
            self._telling.open(place, {**thinking_block(OURS), "id": item.get("id") or ""})

    def text(self, event: Event) -> None:
        """Text grows."""
        self._telling.text((event["output_index"], event.get("content_index")), str(event.get("delta") or ""))

    def refusal(self, event: Event) -> None:
        """The words of a refusal grow."""
        self._refused = True
        self.text(event)

    def thought(self, event: Event) -> None:
        """Reasoning that may be shown grows, in parts that are paragraphs."""
        place, part = event["output_index"], (event["output_index"], event.get("summary_index"), "thought")
        between = "\n\n" if part not in self._grown and place in self._grown else ""
        self._grown |= {place, part}
        self._telling.thinking(place, between + str(event.get("delta") or ""), OURS)

    def argument(self, event: Event) -> None:
        """The arguments of a call grow."""
        self._arguments(event["output_index"], event.get("delta"))

    def _arguments(self, place: object, given: object) -> None:
        if given:
            self._grown.add(place)
            self._telling.arguments(place, given)

    def done(self, event: Event) -> None:
        """What an item came to. A server that sent no pieces says all of it here."""
        item, place = event["item"], event["output_index"]
        if not self._telling.has(place) and item["type"] in ("function_call", "reasoning"):
            self.added({**event, "item": {**item, "arguments": ""}})
        if item["type"] == "function_call" and place not in self._grown:
            self._arguments(place, item.get("arguments"))
        elif item["type"] == "reasoning" and item.get("encrypted_content"):
            self._telling.signature(place, item["encrypted_content"], OURS)
        elif item["type"] == "message":
            self._message(place, listed(item, "content"))

    def _message(self, place: object, parts: Iterable[Event]) -> None:
        for index, part in enumerate(parts):
            self._refused |= part.get("type") == "refusal"
            if not self._telling.has((place, index)):
                self._telling.text((place, index), str(part.get("text") or part.get("refusal") or ""))

    def completed(self, event: Event) -> None:
        """The answer is whole, or ends before it is."""
        response = event["response"]
        usage = inner(response, "usage")
        read = number(usage, "input_tokens_details", "cached_tokens")
        write = number(usage, "input_tokens_details", "cache_write_tokens")
        fresh = max(0, number(usage, "input_tokens") - read - write)
        self._telling.count(fresh, number(usage, "output_tokens"), read, write)
        why = str(inner(response, "incomplete_details").get("reason") or "")
        status = str(response.get("status") or "completed")
        if status != "completed":
            stop = _INCOMPLETE.get(why, why or status)
        elif self._refused:
            stop = "refusal"
        else:
            stop = "tool_use" if self._telling.calls else "end_turn"
        self._telling.end(stop)

    def failed(self, event: Event) -> None:
        """There is no answer."""
        response = event["response"]
        if not response.get("error"):
            raise Trouble("http", "the response failed", Answered(500))
        raise event_trouble(encode({"error": response["error"]}), "")


_HEARD: dict[str, Callable[[ResponsesAnswer, Event], None]] = {
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
"""Which of its events say something; the others are signs of progress."""
