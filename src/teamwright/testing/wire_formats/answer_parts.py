"""What an answer is made of, whatever the API: whom it answers, its counts, pieces of text as they would come."""

from __future__ import annotations

import json

from teamwright.protocol.values import dataclass
from teamwright.testing.replies import Answer


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What an answer needs to know of its request."""

    prompt_tokens: int
    number: int
    model: str


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """Tokens of one answer; `prompt` holds those of the cache too."""

    prompt: int
    read: int
    write: int
    out: int


def answer_tokens(answer: Answer, prompt_tokens: int) -> AnswerTokens:
    """The counts that the script gives, else bytes / 4."""
    given = answer.usage or {}
    written = len(answer.text + answer.thinking + json.dumps([dict(i) for _, i in answer.tools])) // 4 + 1
    read, write = given.get("cache_read_input_tokens", 0), given.get("cache_creation_input_tokens", 0)
    fresh = given.get("input_tokens", prompt_tokens)
    return AnswerTokens(fresh + read + write, read, write, given.get("output_tokens", written))


def split_text(text: str, size: int = 24) -> list[str]:
    """The text, cut."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def stop_reason(answer: Answer) -> str:
    """Why it ends, in the words of the Messages API."""
    return answer.stop_reason or ("tool_use" if answer.tools else "end_turn")


def call_id(number: int, place: int) -> str:
    """The id of a call: new in every answer."""
    return f"call_test_{number}_{place}_0123456789"
