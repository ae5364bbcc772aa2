"""Parts of an answer that all wire formats share: the request's facts, token counts and pieces of text."""

from __future__ import annotations

import json

from msgspec import Struct

from teamwright.testing.model_server_replies import Answer


class AnswerRequest(Struct, frozen=True):
    """The facts of a request that an answer needs."""

    prompt_tokens: int
    number: int
    model: str


class AnswerTokens(Struct, frozen=True):
    """The token counts of one answer; `prompt` includes cached tokens."""

    prompt: int
    read: int
    write: int
    out: int


def answer_tokens(answer: Answer, prompt_tokens: int) -> AnswerTokens:
    """Return the token counts that the script gives, else the number of characters / 4."""
    usage = answer.usage or {}
    written = len(answer.text + answer.thinking + json.dumps([dict(i) for _, i in answer.tools])) // 4 + 1
    read, write = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    fresh = usage.get("input_tokens", prompt_tokens)
    return AnswerTokens(fresh + read + write, read, write, usage.get("output_tokens", written))


def split_text(text: str) -> list[str]:
    """Split a text into pieces of 24 characters."""
    return [text[at : at + 24] for at in range(0, len(text), 24)]


def stop_reason(answer: Answer) -> str:
    """Return the stop reason in the words of the Messages API."""
    return answer.stop_reason or ("tool_use" if answer.tools else "end_turn")


def call_id(number: int, place: int) -> str:
    """Return the id of a tool call, which is unique across answers."""
    return f"call_test_{number}_{place}_0123456789"
