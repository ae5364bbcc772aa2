"""The wire format of the Messages API."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.testing.model_server_replies import Answer, Event, answer_events, encode_event
from teamwright.testing.wire_formats.answer_facts import AnswerRequest

PING = encode_event({"type": "ping"})


def events(answer: Answer, asking: AnswerRequest) -> Iterator[bytes]:
    """Yield the events of an answer."""
    stream_events = answer_events(answer, prompt_tokens=asking.prompt_tokens, number=asking.number, model=asking.model)
    return map(encode_event, stream_events)


def error(type: str, message: str, number: int) -> Event:
    """Return an error object, for an HTTP body or inside a stream."""
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": f"req_test_{number}"}


def error_event(type: str, message: str, number: int) -> bytes:
    """Encode an error inside a stream."""
    return encode_event(error(type, message, number))
