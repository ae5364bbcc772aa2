"""The rules of each API for the messages of a request, as its vendor documents them; a strict service checks them.

https://platform.claude.com/docs/en/api/messages, https://developers.openai.com/api/reference/resources/chat,
https://developers.openai.com/api/reference/resources/responses, https://ai.google.dev/api/generate-content,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
MESSAGES_BLOCKS = {"text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}


def violations(api: str, body: dict) -> list[str]:
    """What a strict service would refuse in the messages of this request."""
    found = sorted(set(RULES[api](body)))
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (UnicodeEncodeError, ValueError) as problem:
        found.append(f"the body is no JSON in UTF-8: {problem}")
    return found


def _alternate(messages: list[dict]) -> Iterator[str]:
    roles = [message["role"] for message in messages]
    if not roles or roles[0] != "user" or roles[-1] != "user":
        yield "the first and the last message are not the user's"
    if any(one == other for one, other in pairwise(roles)):
        yield "roles do not alternate"


def _messages(body: dict) -> Iterator[str]:
    messages, ids, open_calls = body["messages"], set(), set()
    yield from _alternate(messages)
    for message in messages:
        blocks = message["content"]
        if not blocks:
            yield "a message without content"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user" and (set(results) != open_calls or len(results) != len(open_calls)):
            yield "tool_result blocks do not answer the tool_use blocks of the message before"
        if [block["type"] for block in blocks[: len(results)]] != ["tool_result"] * len(results):
            yield "tool_result blocks are not the first"
        open_calls = set()
        for block in blocks:
            yield from _messages_block(block, message["role"])
            if block["type"] == "tool_use":
                if block["id"] in ids:
                    yield "`tool_use` ids must be unique"
                ids.add(block["id"])
                open_calls.add(block["id"])


def _messages_block(block: dict, role: str) -> Iterator[str]:
    kind = block["type"]
    if kind not in MESSAGES_BLOCKS:
        yield f"a block of the unknown type {kind}"
    if kind == "text" and not block["text"].strip():
        yield "a text block without text"
    if kind == "thinking" and not block.get("signature"):
        yield "a thinking block without a signature"
    if kind in ("thinking", "redacted_thinking", "tool_use") and role != "assistant":
        yield f"a {kind} block of the user"
    if kind in ("thinking", "redacted_thinking") and "by" in block:
        yield "an unknown key"
    if kind == "tool_use":
        if not ID.fullmatch(block["id"]) or not NAME.fullmatch(block["name"]):
            yield "the id or name of a tool_use block"
        if not isinstance(block["input"], dict):
            yield "the input of a tool_use block is no object"


def _chat(body: dict) -> Iterator[str]:
    ids, waiting = set(), []
    for message in [message for message in body["messages"] if message["role"] != "system"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "a tool message does not follow its call"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield "a call has no tool message"
        calls = message.get("tool_calls") or []
        if not message.get("content") and not calls:
            yield "a message without content"
        for call in calls:
            if call["id"] in ids:
                yield "two calls have one id"
            ids.add(call["id"])
            yield from _call(call["id"], call["function"]["name"], call["function"]["arguments"])
        waiting = [call["id"] for call in calls]
    if waiting:
        yield "a call has no tool message"


def _call(id: str, name: str, arguments: str) -> Iterator[str]:
    if not ID.fullmatch(id) or not NAME.fullmatch(name):
        yield "the id or name of a call"
    try:
        if not isinstance(json.loads(arguments, parse_constant=lambda _: [][0]), dict):
            yield "arguments are no object"
    except (ValueError, IndexError):
        yield "arguments are no JSON"


def _responses(body: dict) -> Iterator[str]:
    calls, answered = [], []
    for item in body["input"]:
        kind = item.get("type")
        if kind == "function_call":
            calls.append(item["call_id"])
            yield from _call(item["call_id"], item["name"], item["arguments"])
        elif kind == "function_call_output":
            answered.append(item["call_id"])
            if item["call_id"] not in calls:
                yield "an output does not follow its call"
        elif kind == "reasoning":
            if not item.get("encrypted_content"):
                yield "reasoning without its encrypted content"
        elif kind != "message":
            yield f"an item of the unknown type {kind}"
        elif not item["content"]:
            yield "a message without content"
    if sorted(calls) != sorted(answered):
        yield "calls and outputs do not match"
    if len(set(calls)) != len(calls):
        yield "two calls have one id"


def _gemini(body: dict) -> Iterator[str]:
    contents, waiting = body["contents"], []
    yield from _alternate([{**one, "role": "assistant" if one["role"] == "model" else one["role"]} for one in contents])
    for content in contents:
        parts = content["parts"]
        if not parts or not all(parts):
            yield "a content without parts"
        answered = [
            (p["functionResponse"]["id"], p["functionResponse"]["name"]) for p in parts if "functionResponse" in p
        ]
        if sorted(answered) != sorted(waiting):
            yield "function responses do not match the calls before"
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        waiting = [(call["id"], call["name"]) for call in calls]
        if calls and "thoughtSignature" not in next(part for part in parts if "functionCall" in part):
            yield "the first call has no thought signature"
        if not all(GEMINI_NAME.fullmatch(call["name"]) and isinstance(call["args"], dict) for call in calls):
            yield "the name or arguments of a call"


def _bedrock(body: dict) -> Iterator[str]:
    ids, waiting = set(), []
    yield from _alternate(body["messages"])
    for message in body["messages"]:
        if not message["content"]:
            yield "a message without content"
        uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        results = [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]
        if sorted(results) != sorted(waiting):
            yield "tool results do not match the calls before"
        waiting = [use["toolUseId"] for use in uses]
        if ids & set(waiting) or len(set(waiting)) != len(waiting):
            yield "two calls have one id"
        ids |= set(waiting)
        for use in uses:
            if (
                not ID.fullmatch(use["toolUseId"])
                or not NAME.fullmatch(use["name"])
                or not isinstance(use["input"], dict)
            ):
                yield "the id, name or input of a call"
        if any("text" in block and not block["text"].strip() for block in message["content"]):
            yield "a text block without text"


RULES: dict[str, Callable[[dict], Iterator[str]]] = {
    "messages": _messages,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
