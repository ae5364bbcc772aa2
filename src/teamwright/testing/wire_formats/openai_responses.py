"""The Responses API's wire format: https://developers.openai.com/api/reference/resources/responses
(seen 2026-11-21).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from teamwright.testing.model_server_replies import Answer, Event, encode_event
from teamwright.testing.wire_formats.answer_facts import AnswerRequest, answer_tokens, call_id, split_text, stop_reason

_INCOMPLETE = {"max_tokens": "max_output_tokens"}


def events(answer: Answer, asking: AnswerRequest) -> Iterator[bytes]:
    """Yield the numbered events of an answer."""
    items: list[Event] = []
    for sequence, event in enumerate(_events_without_numbers(answer, asking)):
        if event["type"] == "response.output_item.done":
            items.append(event["item"])
        if event["type"] in ("response.completed", "response.incomplete"):
            event["response"]["output"] = items
        yield encode_event({**event, "sequence_number": sequence})


def _events_without_numbers(answer: Answer, asking: AnswerRequest) -> Iterator[Event]:
    response = _response(answer, asking)
    running = {**response, "status": "in_progress", "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": running}
    yield {"type": "response.in_progress", "response": running}
    places = itertools.count()
    if answer.thinking:
        yield from _reasoning(answer.thinking, next(places), asking.number)
    if answer.text:
        yield from _message(answer, next(places), asking.number)
    for number, (name, tool_input) in enumerate(answer.tools):
        place = next(places)
        arguments = json.dumps(dict(tool_input), ensure_ascii=False)
        about = {"type": "function_call", "id": f"fc_{place}", "call_id": call_id(asking.number, number), "name": name}
        here = {"item_id": f"fc_{place}", "output_index": place}
        empty = {**about, "arguments": "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": place, "item": empty}
        for piece in split_text(arguments):
            yield {"type": "response.function_call_arguments.delta", "delta": piece, **here}
        yield {"type": "response.function_call_arguments.done", "arguments": arguments, "name": name, **here}
        whole = {**about, "arguments": arguments, "status": "completed"}
        yield {"type": "response.output_item.done", "output_index": place, "item": whole}
    kind = "response.incomplete" if response["incomplete_details"] else "response.completed"
    yield {"type": kind, "response": response}


def _reasoning(thinking: str, place: int, number: int) -> Iterator[Event]:
    about: Event = {"type": "reasoning", "id": f"rs_{number}_{place}", "summary": []}
    here = {"item_id": about["id"], "output_index": place, "summary_index": 0}
    yield {"type": "response.output_item.added", "output_index": place, "item": about}
    yield {
        "type": "response.reasoning_summary_part.added",
        "part": {"type": "summary_text", "text": ""},
        **here,
    }
    for piece in split_text(thinking):
        yield {"type": "response.reasoning_summary_text.delta", "delta": piece, **here}
    yield {"type": "response.reasoning_summary_text.done", "text": thinking, **here}
    whole = {
        **about,
        "summary": [{"type": "summary_text", "text": thinking}],
        "encrypted_content": f"enc-{number}",
    }
    yield {"type": "response.output_item.done", "output_index": place, "item": whole}


def _message(answer: Answer, place: int, number: int) -> Iterator[Event]:
    about: Event = {"type": "message", "id": f"msg_{number}_{place}", "role": "assistant", "content": []}
    here = {"item_id": about["id"], "output_index": place, "content_index": 0}
    refused = stop_reason(answer) == "refusal"
    empty: Event = {"type": "refusal", "refusal": ""} if refused else {"type": "output_text", "text": ""}
    part: Event = (
        {"type": "refusal", "refusal": answer.text}
        if refused
        else {"type": "output_text", "text": answer.text, "annotations": []}
    )
    yield {"type": "response.output_item.added", "output_index": place, "item": {**about, "status": "in_progress"}}
    yield {"type": "response.content_part.added", "part": empty | {"annotations": []}, **here}
    for piece in split_text(answer.text):
        kind = "response.refusal.delta" if refused else "response.output_text.delta"
        yield {"type": kind, "delta": piece, "logprobs": [], **here}
    whole = {**about, "content": [part], "status": "completed"}
    yield {"type": "response.output_item.done", "output_index": place, "item": whole}


def _response(answer: Answer, asking: AnswerRequest) -> Event:
    counts = answer_tokens(answer, asking.prompt_tokens)
    stop = stop_reason(answer)
    why = _INCOMPLETE.get(stop, "" if stop in ("end_turn", "tool_use", "refusal") else stop)
    return {
        "id": f"resp_{asking.number}",
        "object": "response",
        "created_at": 1,
        "model": asking.model,
        "status": "incomplete" if why else "completed",
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": counts.prompt,
            "input_tokens_details": {"cached_tokens": counts.read, "cache_write_tokens": counts.write},
            "output_tokens": counts.out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts.prompt + counts.out,
        },
    }


def error_event(type: str, message: str, number: int) -> bytes:
    """Encode an error inside a stream."""
    return encode_event({"type": "error", "code": type, "message": message, "param": None, "sequence_number": 0})
