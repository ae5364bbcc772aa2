"""The Gemini API: contents of parts, calls whole, thought signatures that go back where they came from.

A signature belongs to the part it came with; we keep it as a thinking block before that part. Format:
https://ai.google.dev/api/generate-content, https://ai.google.dev/gemini-api/docs/thought-signatures (seen 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from teamwright.models.dialects.canonical import (
    BY,
    Converted,
    Head,
    Message,
    Piece,
    images,
    merged,
    result_images,
    result_text,
)
from teamwright.models.dialects.dialect import Event, Outgoing
from teamwright.models.dialects.meaning import CallIds, Telling, inner, listed, number
from teamwright.models.endpoint import Endpoint
from teamwright.models.ends import FILTER
from teamwright.models.model import Prefix
from teamwright.models.sse import SseReader
from teamwright.models.trouble import Trouble
from teamwright.protocol.blocks import Block, encode

OURS = "gemini"
NO_SIGNATURE = "skip_thought_signature_validator"
"""What the vendor documents for calls that another model made: they have no signature."""

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
    """See `Dialect`."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._endpoint = endpoint
        path = quote(model.removeprefix("models/"), safe="")
        self._url = endpoint.url(f"/v1beta/models/{path}:streamGenerateContent?alt=sse")
        self._converted = Converted(_head, _pieces)

    async def outgoing(self, prefix: Prefix, items: Sequence[bytes]) -> Outgoing:
        """The request, joined of parts that were encoded before."""
        head, contents = self._converted.head(prefix), merged(self._converted.pieces(items), b"parts")
        return Outgoing(self._url, self._endpoint.headers(), b"".join((head, contents, b"]}")))

    def reader(self) -> SseReader:
        """Server-sent events."""
        return SseReader()

    def translator(self, items: Sequence[bytes]) -> GeminiAnswer:
        """For one answer."""
        return GeminiAnswer(CallIds(items))


def _head(head: Head) -> bytes:
    config: dict[str, Any] = {}
    if head.max_tokens:
        config["maxOutputTokens"] = head.max_tokens
    if thinking := {**head.thinking, **({"thinkingLevel": head.effort} if head.effort else {})}:
        config["thinkingConfig"] = thinking
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


def _pieces(message: Message) -> Iterable[Piece]:
    ours = message.role == "assistant"
    parts = list(_said(message.blocks) if ours else _told(message))
    if parts:
        yield Piece("model" if ours else "user", b",".join(map(encode, parts)))


def _told(message: Message) -> Iterable[Event]:
    """Results before all else, as many as there were calls; images of results behind them."""
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
    for image in [*seen, *images(message.blocks)]:
        yield {"inlineData": {"mimeType": image["source"]["media_type"], "data": image["source"]["data"]}}


def _said(blocks: list[Block]) -> Iterable[Event]:
    signature, called = "", False
    for block in blocks:
        kind = block.get("type")
        if kind == "thinking" and block.get(BY) == OURS and block.get("signature"):
            signature = block["signature"]
        elif kind in ("text", "tool_use"):
            part: Event = {"text": block["text"]} if kind == "text" else {"functionCall": _call(block)}
            if kind == "tool_use" and not called:
                # The first call of an answer has to have one; those beside it have none.
                called, signature = True, signature or NO_SIGNATURE
            yield part | ({"thoughtSignature": signature} if signature else {})
            signature = ""
    if signature:
        yield {"text": "", "thoughtSignature": signature}


def _call(block: Block) -> Event:
    return {"id": block["id"], "name": block["name"], "args": inner(block, "input")}


class GeminiAnswer:
    """What one stream of responses means."""

    trailing = False

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._telling = Telling()
        self._begun = False
        self._place: tuple[str, int] = ("", 0)

    def take(self, event: Event) -> Iterable[Event]:
        """One response: some parts, the counts so far, with the last one why it ends."""
        telling = self._telling
        if not self._begun and event.get("modelVersion"):
            self._begun = True
            telling.begin(event["modelVersion"])
        if usage := inner(event, "usageMetadata"):
            self._count(usage)
        for candidate in listed(event, "candidates")[:1]:
            for part in listed(inner(candidate, "content"), "parts"):
                self._part(part)
            if candidate.get("finishReason") and not telling.ended:
                self._end(str(candidate["finishReason"]), str(candidate.get("finishMessage") or ""))
        if inner(event, "promptFeedback").get("blockReason") and not telling.ended:
            telling.end(FILTER)
        return telling.told()

    def _part(self, part: Event) -> None:
        text = str(part.get("text") or "")
        if part.get("thought"):
            self._telling.thinking(self._at("thought"), text, OURS)
            return
        if part.get("thoughtSignature"):
            self._telling.signature(self._at("thought"), part["thoughtSignature"], OURS)
            self._at("signed")  # what comes after it is not of this thought
        if call := inner(part, "functionCall"):
            key = self._at("call", anew=True)
            self._telling.call(key, self._ids.of(call.get("id")), call.get("name"))
            self._telling.arguments(key, call.get("args"))
        elif text:
            self._telling.text(self._at("text"), text)

    def _at(self, kind: str, *, anew: bool = False) -> tuple[str, int]:
        """The key of the block that grows: another kind of part begins another block."""
        if anew or self._place[0] != kind:
            self._place = (kind, self._place[1] + 1)
        return self._place

    def _count(self, usage: Event) -> None:
        read = number(usage, "cachedContentTokenCount")
        prompt = number(usage, "promptTokenCount") + number(usage, "toolUsePromptTokenCount")
        out = number(usage, "candidatesTokenCount") + number(usage, "thoughtsTokenCount")
        self._telling.count(max(0, prompt - read), out, read)

    def _end(self, finish: str, said: str) -> None:
        if finish in _UNREADABLE:
            trouble = Trouble("broken", said or f"the model wrote a call that cannot be read ({finish})")
            trouble.events = self._telling.told()
            raise trouble
        stop = FILTER if finish in _FILTERED else _STOPS.get(finish, finish)
        self._telling.end("tool_use" if stop == "end_turn" and self._telling.calls else stop)
