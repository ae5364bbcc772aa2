"""The Gemini API's wire format: https://ai.google.dev/api/generate-content (seen 2026-11-21)."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.testing.model_server_replies import Answer, Event
from teamwright.testing.wire_formats.answer_facts import AnswerRequest, answer_tokens, call_id, split_text, stop_reason
from teamwright.testing.wire_formats.openai_chat import encode_data

STOPS = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def events(answer: Answer, asking: AnswerRequest) -> Iterator[bytes]:
    """Yield the responses of an answer: parts and running token counts; the last response has the finish reason."""
    counts = answer_tokens(answer, asking.prompt_tokens)
    usage: Event = {"promptTokenCount": counts.prompt, "totalTokenCount": counts.prompt + counts.out}
    if counts.read:
        usage["cachedContentTokenCount"] = counts.read

    def response(parts: list[Event], finish: str = "") -> bytes:
        candidate: Event = {"content": {"parts": parts, "role": "model"}, "index": 0}
        ended = {"finishReason": finish} if finish else {}
        counted = {**usage, "candidatesTokenCount": counts.out} if finish else usage
        whole = {"candidates": [candidate | ended], "usageMetadata": counted, "modelVersion": asking.model}
        return encode_data({**whole, "responseId": f"resp-{asking.number}"})

    for piece in split_text(answer.thinking):
        yield response([{"text": piece, "thought": True}])
    for piece in split_text(answer.text):
        yield response([{"text": piece}])
    for place, (name, arguments) in enumerate(answer.tools):
        call = {"name": name, "args": dict(arguments), "id": call_id(asking.number, place)}
        signature = {"thoughtSignature": f"c2ln{asking.number:04}"} if place == 0 else {}
        yield response([{"functionCall": call, **signature}])
    stop = stop_reason(answer)
    yield response([{"text": ""}], STOPS.get(stop, stop))


def error_body(status: int, type: str, message: str, number: int) -> Event:
    """Return the body of an HTTP error."""
    return {"error": {"code": status, "message": message, "status": type or _STATUS.get(status, "UNKNOWN")}}


def error_event(type: str, message: str, number: int) -> bytes:
    """Encode an error inside a stream. A type that the service does not know becomes its overload error."""
    known = {name: status for status, name in _STATUS.items()}
    status = known.get(type, 503)
    return encode_data(error_body(status, type if type in known else "", message, number))
