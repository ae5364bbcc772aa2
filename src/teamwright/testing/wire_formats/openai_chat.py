"""The wire format of Chat Completions: https://developers.openai.com/api/reference/resources/chat (seen 2026-11-21)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from teamwright.testing.model_server_replies import Answer, Event
from teamwright.testing.wire_formats.answer_facts import AnswerRequest, answer_tokens, call_id, split_text, stop_reason

STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "stop"}
_ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def encode_data(event: Event) -> bytes:
    """Encode one event without a name."""
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def events(answer: Answer, asking: AnswerRequest) -> Iterator[bytes]:
    """Yield the chunks of an answer, the token counts in a separate chunk, and `[DONE]`."""
    base = {"id": f"chatcmpl-{asking.number}", "object": "chat.completion.chunk", "created": 1, "model": asking.model}

    def chunk(delta: Event, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return encode_data({**base, "choices": [choice], "usage": None})

    yield chunk({"role": "assistant", "content": None})
    for piece in split_text(answer.thinking):
        yield chunk({"reasoning_content": piece})
    stop = stop_reason(answer)
    for piece in split_text(answer.text):
        yield chunk({"refusal" if stop == "refusal" else "content": piece})
    for place, (name, arguments) in enumerate(answer.tools):
        begin = {"id": call_id(asking.number, place), "type": "function", "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [{"index": place, **begin}]})
        for piece in split_text(json.dumps(dict(arguments), ensure_ascii=False)):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    yield chunk({}, STOPS.get(stop, stop))
    yield encode_data({**base, "choices": [], "usage": encode_usage(answer, asking.prompt_tokens)})
    yield b"data: [DONE]\n\n"


def encode_usage(answer: Answer, prompt_tokens: int) -> Event:
    """Return the token counts; cached tokens are part of the prompt."""
    counts = answer_tokens(answer, prompt_tokens)
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.out,
        "total_tokens": counts.prompt + counts.out,
        "prompt_tokens_details": {"cached_tokens": counts.read, "cache_write_tokens": counts.write},
    }


def error_body(status: int, type: str, message: str, number: int) -> Event:
    """Return the body of an HTTP error."""
    usual, code = _ERRORS.get(status, ("server_error", None))
    return {"error": {"message": message, "type": usual, "param": None, "code": type or code}}


def error_event(type: str, message: str, number: int) -> bytes:
    """Encode an error inside a stream."""
    return encode_data({"error": {"message": message, "type": type, "code": None}})
