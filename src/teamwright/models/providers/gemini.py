"""The format of the Gemini API: contents of parts, complete calls, thought signatures that go back with their part.

A signature belongs to its part; it is stored as a thinking block before that part. Format:
https://ai.google.dev/api/generate-content, https://ai.google.dev/gemini-api/docs/thought-signatures (seen
2026-11-21)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

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
    content_list,
    content_object,
    content_text,
    count_field,
    merge_messages,
    message_images,
    object_field,
    object_list,
    result_images,
    result_text,
)
from teamwright.models.service_error import ServiceError
from teamwright.processes.http import SseReader
from teamwright.protocol.messages import Block, encode

API_NAME = "gemini"
NO_SIGNATURE = "skip_thought_signature_validator"
"""The documented value for calls of another model, which have no signature."""

_STOPS = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens"}
_FILTERED = frozenset({"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"})
_UNREADABLE = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
_PARAMETERS = {
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_MODES = {"auto": "AUTO", "any": "ANY", "tool": "ANY", "none": "NONE"}


class Gemini:
    """See `ApiFormat`."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._endpoint = endpoint
        path = quote(model.removeprefix("models/"), safe="")
        self._url = endpoint.url(f"/v1beta/models/{path}:streamGenerateContent?alt=sse")
        self._conversions = ConversionCache(_head, _pieces)

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return the request, joined from encoded parts."""
        head = self._conversions.head(prefix)
        contents = merge_messages(self._conversions.pieces(items), b"parts")
        return OutgoingRequest(self._url, self._endpoint.headers(), b"".join((head, contents, b"]}")))

    def reader(self) -> SseReader:
        """Return a reader of server-sent events."""
        return SseReader()

    def translator(self) -> GeminiAnswer:
        """Return a translator for one answer."""
        return GeminiAnswer()


def _head(head: PrefixFields) -> bytes:
    config: dict[str, Any] = {}
    if head.max_tokens:
        config["maxOutputTokens"] = head.max_tokens
    if thinking := {**head.thinking, **({"thinkingLevel": head.effort} if head.effort else {})}:
        config["thinkingConfig"] = thinking
    if head.answer_schema:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": head.answer_schema}
    config |= {_PARAMETERS.get(name, name): value for name, value in head.sampling.items()}
    fields: dict[str, Any] = {"generationConfig": config}
    if head.system:
        fields["systemInstruction"] = {"parts": [{"text": head.instructions}]}
    if head.tools:
        fields["tools"] = [{"functionDeclarations": [_tool(tool) for tool in head.tools]}]
        fields |= _choice(head.tool_choice)
    return encode(fields)[:-1] + b',"contents":['


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    about = {"name": tool["name"], "description": tool.get("description", "")}
    return {**about, "parametersJsonSchema": tool.get("input_schema") or {"type": "object"}}


def _choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    mode = _MODES.get(str(choice.get("type")))
    if mode is None:
        return {}
    calling: dict[str, Any] = {"mode": mode}
    if "name" in choice:
        calling["allowedFunctionNames"] = [choice["name"]]
    return {"toolConfig": {"functionCallingConfig": calling}}


def _pieces(message: DecodedMessage) -> Iterable[EncodedMessage]:
    ours = message.role == "assistant"
    parts = list(_model_parts(message.blocks) if ours else _user_parts(message))
    if parts:
        yield EncodedMessage("model" if ours else "user", b",".join(map(encode, parts)))


def _user_parts(message: DecodedMessage) -> Iterable[Event]:
    """Yield the results first, as many as there were calls, then the images of results."""
    seen: list[Block] = []
    for block in message.blocks:
        if block.get("type") == "tool_result":
            id = block["tool_use_id"]
            text = {"error" if block.get("is_error") else "output": result_text(block)}
            yield {"functionResponse": {"id": id, "name": message.names.get(id, "unknown"), "response": text}}
            seen += result_images(block)
    for block in message.blocks:
        if block.get("type") == "text":
            yield {"text": block["text"]}
    for image in [*seen, *message_images(message.blocks)]:
        yield {"inlineData": {"mimeType": image["source"]["media_type"], "data": image["source"]["data"]}}


def _model_parts(blocks: list[Block]) -> Iterable[Event]:
    signature = ""
    called = False
    for block in blocks:
        kind = block.get("type")
        if kind == "thinking" and block.get(PROVIDER_KEY) == API_NAME and block.get("signature"):
            signature = block["signature"]
        elif kind in ("text", "tool_use"):
            part: Event = {"text": block["text"]} if kind == "text" else {"functionCall": _call(block)}
            if kind == "tool_use" and not called:
                # The first call of an answer must have one; the others have none.
                called, signature = True, signature or NO_SIGNATURE
            yield part | ({"thoughtSignature": signature} if signature else {})
            signature = ""
    if signature:
        yield {"text": "", "thoughtSignature": signature}


def _call(block: Block) -> Event:
    return {"id": block["id"], "name": block["name"], "args": object_field(block, "input")}


class GeminiAnswer:
    """A translator of one stream of responses."""

    has_trailing = False

    def __init__(self) -> None:
        self._events = AnswerEvents()
        self._begun = False
        self._block_number: tuple[str, int] = ("", 0)

    def translate(self, event: Event) -> Iterable[Event]:
        """Return the translation of one response: some parts, the counts so far, with the last one the stop reason."""
        telling = self._events
        if not self._begun and event.get("modelVersion"):
            self._begun = True
            telling.begin(event["modelVersion"])
        if usage := object_field(event, "usageMetadata"):
            self._count(usage)
        for candidate in object_list(event, "candidates")[:1]:
            for part in content_list(content_object(candidate, "content"), "parts"):
                self._part(part)
            finish: object = candidate.get("finishReason")
            if finish and isinstance(finish, str) and not telling.has_ended:
                self._end(finish, str(candidate.get("finishMessage") or ""))
        if object_field(event, "promptFeedback").get("blockReason") and not telling.has_ended:
            telling.end(CONTENT_FILTER)
        return telling.take_events()

    def _part(self, part: Event) -> None:
        text = content_text(part, "text") if "text" in part else ""
        if part.get("thought"):
            self._events.thinking(self._at("thought"), text, API_NAME)
            return
        if part.get("thoughtSignature"):
            self._events.signature(self._at("thought"), part["thoughtSignature"], API_NAME)
            self._at("signed")  # later parts do not belong to this thought
        if "functionCall" in part:
            call = content_object(part, "functionCall")
            if not call:
                raise KeyError("functionCall")
            key = self._at("call", is_new=True)
            self._events.call(key, call.get("id"), call.get("name"))
            self._events.arguments(key, call.get("args"))
        elif text:
            self._events.text(self._at("text"), text)

    def _at(self, kind: str, *, is_new: bool = False) -> tuple[str, int]:
        """Return the key of the growing block: another kind of part begins another block."""
        if is_new or self._block_number[0] != kind:
            self._block_number = (kind, self._block_number[1] + 1)
        return self._block_number

    def _count(self, usage: Event) -> None:
        read = count_field(usage, "cachedContentTokenCount")
        prompt = count_field(usage, "promptTokenCount") + count_field(usage, "toolUsePromptTokenCount")
        out = count_field(usage, "candidatesTokenCount") + count_field(usage, "thoughtsTokenCount")
        self._events.count(max(0, prompt - read), out, read)

    def _end(self, finish: str, message: str) -> None:
        if finish in _UNREADABLE:
            trouble = ServiceError("unparsed", message or f"the model wrote a call that cannot be read ({finish})")
            trouble.events = self._events.take_events()
            raise trouble
        stop = CONTENT_FILTER if finish in _FILTERED else _STOPS.get(finish, finish)
        self._events.end("tool_use" if stop == "end_turn" and self._events.calls else stop)
