"""Streams with fields that are missing, retyped, repeated or in another order, for each wire format.

`OPTIONAL` lists once for each wire what a server may leave out: llama.cpp, vLLM, LiteLLM and others do.
"""

import json
import random
from collections.abc import Iterator

from teamwright.testing.model_server_replies import Answer
from teamwright.testing.wire_formats.answer_facts import AnswerRequest
from teamwright.testing.wire_formats.wire_format import format_for_path

PATHS = {
    "messages": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/test:streamGenerateContent",
}
OPTIONAL = {
    "messages": ("id", "role", "model", "usage", "input", "stop_sequence", "index", "signature"),
    "openai-chat": (
        *("id", "object", "created", "model", "system_fingerprint", "usage", "index", "role", "logprobs"),
        "type",
    ),
    "openai-responses": (
        *("id", "object", "created_at", "model", "status", "usage", "output_index", "item_id", "content_index"),
        *("summary_index", "sequence_number", "role", "annotations", "logprobs", "incomplete_details", "output"),
        *("error", "tools", "tool_choice", "parallel_tool_calls", "part", "encrypted_content"),
    ),
    "gemini": ("responseId", "modelVersion", "usageMetadata", "role", "index", "id", "thoughtSignature"),
}
ANSWER = Answer(
    "I read both files. Then I say what they say.",
    [("Read", {"path": "notes.md", "limit": 3}), ("Bash", {"command": "ls -l"})],
    thinking="Two files, so two calls.",
)


def stream(api: str) -> list[dict]:
    """The events of the answer."""
    wire = format_for_path(PATHS[api])
    assert wire is not None
    whole = b"".join(wire.events(ANSWER, AnswerRequest(10, 1, "test")))
    lines = [line.removeprefix(b"data: ") for line in whole.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def without(events: list[dict], names: set[str], draw: random.Random | None = None) -> list[dict]:
    """The events without these fields, at any depth. With `draw` each is kept in half of the types of events."""
    kept: dict[tuple[object, str], bool] = {}

    def is_kept(kind: object, name: str) -> bool:
        return draw is not None and kept.setdefault((kind, name), draw.random() < 0.5)

    def strip(value: object, kind: object) -> object:
        if isinstance(value, dict):
            return {key: strip(part, kind) for key, part in value.items() if key not in names or is_kept(kind, key)}
        return [strip(part, kind) for part in value] if isinstance(value, list) else value

    return [strip(event, event.get("type")) for event in events]


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all fields in a value."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(part, (*path, key))


VALUES = (None, "", "x", 0, -1, 7, 1e300, True, [], {}, [None], [{}], {"type": 5}, "\ud83d", "\x00")


def damaged(api: str, seed: int) -> bytes:
    """The stream with one to four damages that the seed decides."""
    return encoded(damaged_events(api, seed), named=api == "messages")


def damaged_events(api: str, seed: int) -> list[dict]:
    """The events of that stream."""
    draw = random.Random(seed)
    events = stream(api)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(events))
        kind = draw.choice(("drop field", "retype field", "drop", "repeat", "move"))
        if kind == "drop" and len(events) > 1:
            del events[at]
        elif kind == "repeat":
            events.insert(at, json.loads(json.dumps(events[at])))
        elif kind == "move":
            events.insert(draw.randrange(len(events)), events.pop(at))
        elif found := list(places(events[at])):
            *path, last = draw.choice(found)
            holder = events[at]
            for key in path:
                holder = holder[key]
            if kind == "drop field":
                del holder[last]
            else:
                holder[last] = draw.choice(VALUES)
    return events


def encoded(events: list[dict], *, named: bool = False) -> bytes:
    """The events as a stream. `named`: with the type as the name of each event, without which some readers skip it."""
    names = [f"event: {event.get('type')}\n".encode(errors="replace") if named else b"" for event in events]
    return b"".join(
        b"%sdata: %s\n\n" % (name, json.dumps(event).encode()) for name, event in zip(names, events, strict=True)
    )


def ends_at(api: str, event: dict) -> bool:
    """Return True for an event that ends the answer."""
    if api == "messages":
        return event.get("type") == "message_stop"
    if api == "openai-responses":
        return event.get("type") in ("response.completed", "response.incomplete")
    rows = event.get("choices" if api == "openai-chat" else "candidates")
    found = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    finish = found.get("finish_reason" if api == "openai-chat" else "finishReason")
    return isinstance(finish, str) and bool(finish)


def goes_on_after_its_end(api: str, events: list[dict]) -> bool:
    """Return True for a stream with content after its end, which belongs to no answer."""
    ends = [ends_at(api, event) for event in events]
    behind = events[ends.index(True) + 1 :] if True in ends else []
    return any(event not in stream(api)[-2:] for event in behind)
