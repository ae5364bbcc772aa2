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
    answer_format,
    block_number,
    call_arguments,
    content_text,
    content_value,
    count_field,
    data_url,
    given_text,
    object_field,
    object_list,
    result_images,
    result_text,
    thinking_block,
)
from teamwright.models.service_error import ServiceAnswer, ServiceError, parse_event_error
from teamwright.models.tool_call_repair import parse_arguments
from teamwright.processes.http import SseReader
from teamwright.protocol.messages import UNPARSED_ARGUMENTS, Block, encode, text_block

API_NAME = "openai-responses"

_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": CONTENT_FILTER}
_CHOICES: Mapping[str, Any] = {"auto": "auto", "any": "required", "none": "none"}


class OpenAiResponses:
    """See `ApiFormat`."""

    def __init__(self, endpoint: Endpoint, *, reports_progress: bool = False) -> None:
        """Create the format. `reports_progress` as for `OpenAiChat`."""
        self._endpoint = endpoint
        self._more: dict[str, Any] = {"return_progress": True} if reports_progress else {}
        self._conversions = ConversionCache(self._head, _pieces)

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return the request, joined from encoded parts."""
        head = self._conversions.head(prefix)
        pieces = self._conversions.pieces(items)
        body = b"".join((head, b",".join(piece.encoded for piece in pieces), b"]}"))
        return OutgoingRequest(self._endpoint.url(self._endpoint.facts.path), self._endpoint.headers(), body)

    def reader(self) -> SseReader:
        """Return a reader of server-sent events."""
        return SseReader()

    def translator(self) -> ResponsesAnswer:
        """Return a translator for one answer."""
        return ResponsesAnswer()

    def _head(self, head: PrefixFields) -> bytes:
        fields: dict[str, Any] = {"model": head.model, "stream": True, "store": False, **self._more}
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
        if head.answer_schema:
            schema = answer_format(head.answer_schema)
            fields["text"] = {"format": {"type": "json_schema", **schema}}
            if self._endpoint.is_local:
                # llama.cpp does not read `text` here, but the field of Chat Completions (b11549).
                fields["response_format"] = {"type": "json_schema", "json_schema": schema}
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
        yield {"type": "message", "role": "user", "content": parts}


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
            # llama.cpp tells an answer from a call by the type, and refuses an item without it.
            yield {"type": "message", "role": "assistant", "content": block["text"]}
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
        self._begun = self._refused = False
        self._places = _ItemPlaces()
        self._grown: set[object] = set()
        self._early: dict[int, str] = {}
        """Arguments of calls whose name has not come yet."""
        self._texts: dict[tuple[int, int], list[str]] = {}
        self._calls: dict[int, tuple[object, list[str]]] = {}
        """The name of each call, and its arguments in pieces."""

    def translate(self, event: Event) -> Iterable[Event]:
        """Return the translation of one event."""
        handler = _HANDLERS.get(str(event.get("type")))
        if handler is not None and not self._events.has_ended:
            handler(self, event)
        return self._events.take_events()

    def created(self, event: Event) -> None:
        """Start the answer of a model. llama.cpp names the model with the last event only."""
        model = object_field(event, "response").get("model")
        if model and not self._begun:
            self._begun = True
            self._events.begin(model)

    def progressed(self, event: Event) -> None:
        """Report how far llama.cpp has read the prompt."""
        self._events.prompt_progress(object_field(event, "prompt_progress"))

    def added(self, event: Event) -> None:
        """Open a call or reasoning; text is opened with its first piece."""
        item, place = object_field(event, "item"), self._places.find(event, opens=True)
        if self._events.has(place):
            return
        if item.get("type") == "function_call":
            self._events.call(place, item.get("call_id") or item.get("id"), item.get("name"))
            self._calls[place] = (item.get("name"), [])
            early = self._early.pop(place, "")
            self._arguments(place, item.get("arguments") or early)
        elif item.get("type") == "reasoning":
            self._events.open(place, {**thinking_block(API_NAME), "id": item.get("id") or ""})

    def text(self, event: Event) -> None:
        """Add text."""
        place = self._places.find(event)
        self._grown.add(place)
        self._text(place, block_number(event.get("content_index")) or 0, content_text(event, "delta"))

    def _text(self, place: int, index: int, text: str) -> None:
        self._texts.setdefault((place, index), []).append(text)
        self._events.text((place, index), text)

    def refusal(self, event: Event) -> None:
        """Add text of a refusal."""
        self._refused = True
        self.text(event)

    def thought(self, event: Event) -> None:
        """Add reasoning that may be shown, in parts that are paragraphs."""
        place = self._places.find(event)
        self._thought(place, block_number(event.get("summary_index")), str(event.get("delta") or ""))

    def _thought(self, place: int, number: object, text: str) -> None:
        part = (place, number, "thought")
        between = "\n\n" if part not in self._grown and place in self._grown else ""
        self._grown |= {place, part}
        self._events.thinking(place, between + text, API_NAME)

    def argument(self, event: Event) -> None:
        """Add arguments of a call."""
        place, piece = self._places.find(event), content_value(event, "delta")
        if self._events.has(place):
            self._arguments(place, piece)
        else:
            self._early[place] = self._early.get(place, "") + given_text(piece)

    def _arguments(self, place: int, value: object) -> None:
        if value:
            self._grown.add(place)
            if place in self._calls:
                self._calls[place][1].append(given_text(value))
            self._events.arguments(place, value)

    def done(self, event: Event) -> None:
        """Complete an item. A server that sent no pieces sends all of it here."""
        item, place = object_field(event, "item"), self._places.find(event)
        kind = item.get("type")
        if not self._events.has(place) and kind in ("function_call", "reasoning"):
            self.added({**event, "item": {**item, "arguments": ""}})
        if kind == "function_call" and place not in self._grown:
            self._arguments(place, item.get("arguments"))
        elif kind == "reasoning":
            if place not in self._grown:
                for number, part in enumerate(object_list(item, "summary") or object_list(item, "content")):
                    self._thought(place, number, str(part.get("text") or ""))
            if item.get("encrypted_content"):
                self._events.signature(place, item["encrypted_content"], API_NAME)
        elif kind == "message":
            self._message(place, object_list(item, "content"))

    def _message(self, place: int, parts: Iterable[Event]) -> None:
        for index, part in enumerate(parts):
            self._refused |= part.get("type") == "refusal"
            if place not in self._grown:
                self._text(place, index, str(part.get("text") or part.get("refusal") or ""))

    def completed(self, event: Event) -> None:
        """End the answer, complete or incomplete."""
        self.created(event)
        response = object_field(event, "response")
        came_before = bool(self._places.count)
        for index, item in enumerate(object_list(response, "output")):
            if not came_before:
                self.done({"item": item, "output_index": index})
            elif event.get("type") == "response.completed":
                self._correct(item, index)
        if self._early:
            raise ServiceError("strange", "arguments came for a call without a name (response.output_item.added)")
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

    def _correct(self, item: Event, index: int) -> None:
        """Correct an item by what the last event says of it: pieces may have been lost, or have come twice."""
        place = self._places.place_of(item, index)
        if place is None:
            return
        if not self._events.has(place) and not any(at == place for at, _ in self._texts):
            self.done({"item": item, "output_index": index})
        elif item.get("type") == "function_call" and place in self._calls:
            self._correct_call(item, place)
        else:
            self._correct_texts(item, place)

    def _correct_call(self, item: Event, place: int) -> None:
        name, arguments = item.get("name"), item.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, str):
            return
        known, pieces = self._calls[place]
        whole = parse_arguments(arguments)
        if (name, arguments) != (known, "".join(pieces)) and UNPARSED_ARGUMENTS not in whole:
            id = item.get("call_id") or item.get("id")
            self._events.replace(place, {"type": "tool_use", "id": id, "name": name, "input": whole})

    def _correct_texts(self, item: Event, place: int) -> None:
        parts = object_list(item, "content") if item.get("type") == "message" else []
        whole = {number: part.get("text") or part.get("refusal") for number, part in enumerate(parts)}
        if parts and not any(isinstance(text, str) for text in whole.values()):
            return
        numbers = {number for at, number in self._texts if at == place}
        for number in sorted(numbers | set(whole)):
            text = whole.get(number, "")
            if not isinstance(text, str) or text == "".join(self._texts.get((place, number), ())):
                continue
            if self._events.has((place, number)):
                self._events.replace((place, number), text_block(text))
            else:
                self._text(place, number, text)

    def failed(self, event: Event) -> None:
        """Raise the error of a failed answer."""
        response = object_field(event, "response")
        if not response.get("error"):
            raise ServiceError("http", "the response failed", ServiceAnswer(500))
        raise parse_event_error(encode({"error": response["error"]}), "")


class _ItemPlaces:
    """The places of an answer's items, found by what their events say: `output_index`, else an id of the item.

    llama.cpp numbers no items, and its calls have no id but `call_id`, which their pieces name as `item_id`. An event
    that says nothing belongs to the newest item.
    https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-task.cpp (seen 2026-11-29)
    """

    __slots__ = ("_places", "count")

    def __init__(self) -> None:
        self._places: dict[tuple[str, object], int] = {}
        self.count = 0
        """The number of items."""

    def find(self, event: Event, *, opens: bool = False) -> int:
        """Return the place of the item of an event. `opens`: the event begins an item, so a new id is a new item."""
        ids = _ids(object_field(event, "item"))
        if isinstance(id := event.get("item_id"), str) and id:
            ids.append(("call_id" if ("call_id", id) in self._places else "id", id))
        names = [("index", number), *ids] if (number := block_number(event.get("output_index"))) is not None else ids
        place = next((self._places[name] for name in (opens and ids) or names if name in self._places), None)
        if place is None:
            self.count += opens or not self.count or not self._may_be_newest(names)
            place = self.count - 1
        for name in names:
            if opens or name not in self._places:
                self._places[name] = place
        return place

    def place_of(self, item: Event, index: int) -> int | None:
        """Return the place of an item by its ids, else by its number; None for one of which nothing came."""
        return next((self._places[name] for name in (*_ids(item), ("index", index)) if name in self._places), None)

    def _may_be_newest(self, names: list[tuple[str, object]]) -> bool:
        """Return True when nothing of the kind of these names, which are unknown, was said about the newest item."""
        said = {kind for (kind, _), place in self._places.items() if place == self.count - 1}
        return all(kind not in said for kind, _ in names)


def _ids(item: Event) -> list[tuple[str, object]]:
    return [(kind, id) for kind in ("id", "call_id") if isinstance(id := item.get(kind), str) and id]


_HANDLERS: dict[str, Callable[[ResponsesAnswer, Event], None]] = {
    "response.created": ResponsesAnswer.created,
    "response.in_progress": ResponsesAnswer.progressed,
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
