"""Replies of the loopback model server: complete answers, and every way in which an answer can fail.

Plain values without a socket. Event shapes: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

Event: TypeAlias = dict[str, Any]
ToolUse: TypeAlias = tuple[str, Mapping[str, Any]]

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Answer(Struct, frozen=True):
    """A complete answer: thinking, then text, then tool calls.

    `tools` are (name, input) pairs. `stop_reason` defaults to `tool_use` with calls and to `end_turn` without. `usage`
    overrides the token counts, whose default is bytes / 4. `blocks` are further content blocks, sent verbatim in their
    `content_block_start`. The server waits `delay_s` seconds before it answers.
    """

    text: str = ""
    tools: Sequence[ToolUse] = ()
    stop_reason: str | None = None
    usage: Mapping[str, int] | None = None
    thinking: str = ""
    blocks: Sequence[Event] = ()
    delay_s: float = 0.0


class Status(Struct, frozen=True):
    """An HTTP error. `retry_after` is sent verbatim; `type` defaults to the usual type of the status."""

    status: int
    message: str = "scripted"
    retry_after: str | float | None = None
    type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


class Cut(Struct, frozen=True):
    """The stream of `answer` up to a byte offset; then the connection closes without the end of the stream."""

    after_bytes: int
    answer: Answer = Answer("This answer is cut off before it is whole.")


class Stall(Struct, frozen=True):
    """The first `after_events` events of `answer`, then only pings, or with `pings=False` nothing."""

    after_events: int = 1
    answer: Answer = Answer("This answer never comes.")
    pings: bool = True
    every_s: float = 0.02


class ErrorEvent(Struct, frozen=True):
    """The first `after_events` events of `answer`, then an `error` event in the stream."""

    type: str = "overloaded_error"
    message: str = "Overloaded"
    after_events: int = 2
    answer: Answer = Answer("This answer breaks.")


class CutPrompt(Struct, frozen=True):
    """An answer of a server whose window is `limit` tokens and that silently truncates longer prompts."""

    limit: int
    answer: Answer = Answer("Yes.")


class Raw(Struct, frozen=True):
    """Bytes of a stream, sent verbatim, one chunk at a time; `close=False` leaves the stream open.

    `content_type` defaults to that of the requested API. `before` is awaited with the number of each chunk, from 0 on,
    before it is sent: a server that computes for as long as the test wants.
    """

    chunks: Sequence[bytes]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = ""
    close: bool = True
    before: Callable[[int], Awaitable[object]] | None = None


ScriptedReply: TypeAlias = Answer | Status | Cut | Stall | ErrorEvent | CutPrompt | Raw
"""The replies that a script may contain; a plain text is an `Answer`."""


def encode_event(event: Event) -> bytes:
    """Encode one event in its wire format, named by its type."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def stream_bytes(answer: Answer, *, prompt_tokens: int = 10, number: int = 1, model: str = "test") -> bytes:
    """Return the whole stream of an answer as bytes."""
    return b"".join(map(encode_event, answer_events(answer, prompt_tokens=prompt_tokens, number=number, model=model)))


def answer_events(answer: Answer, *, prompt_tokens: int = 10, number: int = 1, model: str = "test") -> Iterator[Event]:
    """Yield the events of an answer in order."""
    written = len(answer.text + answer.thinking + json.dumps([dict(i) for _, i in answer.tools])) // 4 + 1
    usage = {"input_tokens": prompt_tokens, "output_tokens": written, **(answer.usage or {})}
    message: Event = {
        "id": f"msg_test_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    for index, (start, deltas) in enumerate(_blocks(answer, number)):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = answer.stop_reason or ("tool_use" if answer.tools else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def _blocks(answer: Answer, number: int) -> Iterator[tuple[Event, list[Event]]]:
    """Yield each block as its start event and its delta events."""
    if answer.thinking:
        start: Event = {"type": "thinking", "thinking": "", "signature": ""}
        pieces: list[Event] = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(answer.thinking)]
        yield start, [*pieces, {"type": "signature_delta", "signature": f"sig-{number}"}]
    if answer.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in _pieces(answer.text)]
    for place, (name, arguments) in enumerate(answer.tools):
        text = json.dumps(dict(arguments), ensure_ascii=False) if arguments else ""
        use: Event = {"type": "tool_use", "id": f"toolu_test_{number}_{place}", "name": name, "input": {}}
        yield use, [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(text))]
    for block in answer.blocks:
        yield dict(block), []


def _pieces(text: str, size: int = 24) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
