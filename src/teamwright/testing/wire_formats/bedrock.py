"""Bedrock's ConverseStream wire format, with its binary frames.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html (seen 2026-11-21)
"""

from __future__ import annotations

import json
import struct
from binascii import crc32
from collections.abc import Iterator

from teamwright.testing.model_server_replies import Answer, Event
from teamwright.testing.wire_formats.answer_facts import AnswerRequest, answer_tokens, call_id, split_text, stop_reason

CONTENT_TYPE = "application/vnd.amazon.eventstream"
STOPS = {"content_filter": "content_filtered"}
_STRING = 7


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Encode one message of an event stream."""
    coded = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _STRING, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(coded) + len(payload), len(coded))
    body = prelude + struct.pack(">I", crc32(prelude)) + coded + payload
    return body + struct.pack(">I", crc32(body))


def _event(kind: str, body: Event) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(body, ensure_ascii=False).encode())


def events(answer: Answer, asking: AnswerRequest) -> Iterator[bytes]:
    """Yield the frames of an answer; the token counts follow its end."""
    yield _event("messageStart", {"role": "assistant"})
    index = 0
    if answer.thinking:
        for piece in split_text(answer.thinking):
            yield _event("contentBlockDelta", _delta(index, {"reasoningContent": {"text": piece}}))
        signature = {"reasoningContent": {"signature": f"sig-{asking.number}"}}
        yield _event("contentBlockDelta", _delta(index, signature))
        yield _event("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    if answer.text:
        for piece in split_text(answer.text):
            yield _event("contentBlockDelta", _delta(index, {"text": piece}))
        yield _event("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    for place, (name, arguments) in enumerate(answer.tools):
        use = {"toolUseId": call_id(asking.number, place), "name": name}
        yield _event("contentBlockStart", {"start": {"toolUse": use}, "contentBlockIndex": index})
        for piece in split_text(json.dumps(dict(arguments), ensure_ascii=False)):
            yield _event("contentBlockDelta", _delta(index, {"toolUse": {"input": piece}}))
        yield _event("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    stop = stop_reason(answer)
    yield _event("messageStop", {"stopReason": STOPS.get(stop, stop)})
    counts = answer_tokens(answer, asking.prompt_tokens)
    usage = {
        "inputTokens": counts.prompt - counts.read - counts.write,
        "outputTokens": counts.out,
        "totalTokens": counts.prompt + counts.out,
        "cacheReadInputTokens": counts.read,
        "cacheWriteInputTokens": counts.write,
    }
    yield _event("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})


def _delta(index: int, delta: Event) -> Event:
    return {"delta": delta, "contentBlockIndex": index}


def error_body(status: int, type: str, message: str, number: int) -> Event:
    """Return the body of an HTTP error. Its type belongs in a header, which the server does not send."""
    return {"message": message}


def error_event(type: str, message: str, number: int) -> bytes:
    """Encode an exception inside a stream."""
    kind = type if type.endswith("Exception") else "serviceUnavailableException"
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())
