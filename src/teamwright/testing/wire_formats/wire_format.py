"""The interface of a wire format, and the choice of a format by request path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from msgspec import Struct

from teamwright.testing.model_server_replies import ERROR_TYPES, Answer, Event
from teamwright.testing.wire_formats import bedrock, gemini, messages, openai_chat, openai_responses
from teamwright.testing.wire_formats.answer_facts import AnswerRequest


class WireFormat(Struct, frozen=True):
    """One API. `events` yields the bytes of an answer, one event each; `ping` is the API's keep-alive event, if any."""

    events: Callable[[Answer, AnswerRequest], Iterator[bytes]]
    error_event: Callable[[str, str, int], bytes]
    error_body: Callable[[int, str, str, int], Event]
    content_type: str = "text/event-stream; charset=utf-8"
    ping: bytes = b": still here\n\n"
    id_header: str = "x-request-id"

    def status_body(self, status: int, type: str, message: str, number: int) -> bytes:
        """Return the body of an HTTP error; `type` defaults to the usual type of the status."""
        return json.dumps(self.error_body(status, type, message, number)).encode()


MESSAGES = WireFormat(
    messages.events,
    messages.error_event,
    lambda status, type, message, number: messages.error(type or ERROR_TYPES.get(status, "api_error"), message, number),
    ping=messages.PING,
    id_header="request-id",
)
_WIRES = {
    "/v1/messages": MESSAGES,
    "/chat/completions": WireFormat(openai_chat.events, openai_chat.error_event, openai_chat.error_body),
    "/responses": WireFormat(openai_responses.events, openai_responses.error_event, openai_chat.error_body),
    ":streamGenerateContent": WireFormat(gemini.events, gemini.error_event, gemini.error_body),
    "/converse-stream": WireFormat(
        bedrock.events,
        bedrock.error_event,
        bedrock.error_body,
        bedrock.CONTENT_TYPE,
        ping=b"",
        id_header="x-amzn-requestid",
    ),
}


def format_for_path(path: str) -> WireFormat | None:
    """Return the API format of a request path."""
    return next((wire for end, wire in _WIRES.items() if path.endswith(end)), None)


def requested_model(path: str, body: Event) -> str:
    """Return the requested model: named in the body or, for some APIs, in the path."""
    if "model" in body:
        return str(body["model"])
    named = path.rpartition("/models/")[2].rpartition(":")[0] or path.rpartition("/model/")[2].rpartition("/")[0]
    return unquote(named) or "test"
