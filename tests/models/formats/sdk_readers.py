"""The vendors' own SDKs as readers of an answer, for each API that has one: what they make of the same bytes.

An SDK is imported when it is used: it takes seconds, and may not be installed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import Struct

from teamwright.models.model import Reply
from teamwright.models.stream import join_surrogates

SDKS = {"messages": "anthropic", "openai-chat": "openai", "openai-responses": "openai", "gemini": "google.genai"}
ASK = {"role": "user", "content": "x"}


UNCOUNTED = (None, None, None)


class AnswerRead(Struct):
    """What a reader found in an answer. `counts` are the tokens of the prompt, those read from a cache, those out."""

    text: str
    calls: list[tuple[str, Any]]
    counts: tuple[object, object, object]


def sdk_for(api: str) -> Any:
    """Import the SDK of an API; without it the test is skipped."""
    return pytest.importorskip(SDKS[api], reason=f"the SDK {SDKS[api]} is not installed: pip install -e '.[dev]'")


def as_read(reply: Reply) -> AnswerRead:
    """What Teamwright found."""
    used = reply.usage
    return AnswerRead(
        "".join(block["text"] for block in reply.content if block["type"] == "text"),
        json.loads(json.dumps([(b["name"], b["input"]) for b in reply.content if b["type"] == "tool_use"])),
        (used.prompt_tokens, used.cache_read, used.output_tokens),
    )


@contextmanager
def sdk_reader(api: str, url: str) -> Iterator[Any]:
    """A function that asks the server at this address and returns what the SDK read; it raises what the SDK raises."""
    sdk = sdk_for(api)
    match api:
        case "messages":
            with sdk.Anthropic(api_key="key", base_url=url, max_retries=0) as client:
                yield lambda: _message(client)
        case "openai-chat":
            with sdk.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as client:
                yield lambda: _completion(client)
        case "openai-responses":
            with sdk.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as client:
                yield lambda: _response(client)
        case _:
            client = sdk.Client(api_key="key", http_options={"base_url": url, "api_version": "v1beta"})
            yield lambda: _content(client)


def _message(client: Any) -> AnswerRead:
    with client.messages.stream(model="test", max_tokens=9, messages=[ASK]) as stream:
        final = stream.get_final_message().to_dict(mode="json", exclude_unset=True, warnings=False)
    used = final["usage"]
    read, write = used.get("cache_read_input_tokens") or 0, used.get("cache_creation_input_tokens") or 0
    blocks = final["content"]
    return AnswerRead(
        _whole_pairs("".join(block["text"] for block in blocks if block["type"] == "text")),
        json.loads(json.dumps([(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"])),
        (used["input_tokens"] + read + write, read, used["output_tokens"]),
    )


def _completion(client: Any) -> AnswerRead:
    with client.chat.completions.stream(model="test", messages=[ASK], stream_options={"include_usage": True}) as stream:
        final = stream.get_final_completion()
    said, used = final.choices[0].message, final.usage
    details = used and used.prompt_tokens_details
    return AnswerRead(
        _whole_pairs(said.content),
        [[call.function.name, json.loads(call.function.arguments or "{}")] for call in said.tool_calls or ()],
        (used.prompt_tokens, (details and details.cached_tokens) or 0, used.completion_tokens) if used else UNCOUNTED,
    )


def _response(client: Any) -> AnswerRead:
    with client.responses.stream(model="test", input="x") as stream:
        final = stream.get_final_response()
    used = final.usage
    details = used and used.input_tokens_details
    return AnswerRead(
        _whole_pairs(final.output_text),
        [[item.name, json.loads(item.arguments or "{}")] for item in final.output if item.type == "function_call"],
        (used.input_tokens, (details and details.cached_tokens) or 0, used.output_tokens) if used else UNCOUNTED,
    )


def _content(client: Any) -> AnswerRead:
    chunks = list(client.models.generate_content_stream(model="test", contents="x"))
    contents = [chunk.candidates[0].content for chunk in chunks if chunk.candidates]
    parts = [part for content in contents if content for part in content.parts or ()]
    used = next((chunk.usage_metadata for chunk in reversed(chunks) if chunk.usage_metadata), None)
    return AnswerRead(
        "".join(part.text for part in parts if part.text and not part.thought),
        [[part.function_call.name, part.function_call.args or {}] for part in parts if part.function_call],
        (used.prompt_token_count or 0, used.cached_content_token_count or 0, used.candidates_token_count or 0)
        if used
        else UNCOUNTED,
    )


def _whole_pairs(text: object) -> Any:
    """The text as it is stored: half of a surrogate pair becomes U+FFFD."""
    return join_surrogates(text) if isinstance(text, str) else text or ""
