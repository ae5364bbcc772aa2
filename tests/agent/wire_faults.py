"""A hundred faults of an answer on the wire, for every API: each changes the events or the bytes of a correct answer.

A fault takes the API and returns the reply of the loopback server. Most faults are built from the events of a correct
answer with one text and one call.
"""

import gzip
import json
import re
from collections.abc import Callable, Mapping

from teamwright.testing.model_server_replies import Answer, Cut, ErrorEvent, Raw, ScriptedReply, Stall, Status
from teamwright.testing.wire_formats.answer_facts import AnswerRequest
from teamwright.testing.wire_formats.wire_format import format_for_path

PATHS = {
    "messages": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/test:streamGenerateContent",
}
Fault = Callable[[str], ScriptedReply]

TEXT = "Grüße 漢字 😀 done."
CALL = ("Echo", {"text": "again"})
PLAIN = Answer(TEXT)
CALLING = Answer(TEXT, [CALL])
THINKING = Answer(TEXT, [CALL], thinking="Hm, let me see.")


def events(api: str, answer: Answer = CALLING) -> list[bytes]:
    """The events of a correct answer. Its call has the id that the first answer's call has."""
    wire = format_for_path(PATHS[api])
    assert wire is not None
    return list(wire.events(answer, AnswerRequest(100, 1, "test")))


def changed(old: str, new: str, answer: Answer = CALLING, count: int = 0) -> Fault:
    """Replace a pattern in every event."""
    pattern, replacement = re.compile(old.encode()), new.encode()
    return lambda api: Raw([pattern.sub(lambda _: replacement, event, count) for event in events(api, answer)])


def built(make: Callable[[list[bytes]], list[bytes]], answer: Answer = CALLING, **raw) -> Fault:
    """Build the chunks from the events."""
    return lambda api: Raw(make(events(api, answer)), **raw)


def whole(make: Callable[[bytes], list[bytes]], answer: Answer = CALLING, **raw) -> Fault:
    """Build the chunks from all bytes."""
    return lambda api: Raw(make(b"".join(events(api, answer))), **raw)


def calling(*calls) -> Fault:
    """An answer with these calls."""
    return lambda api: Raw(events(api, Answer("x", list(calls))))


def given_arguments(text: str) -> Fault:
    """An answer whose call has this JSON text as its arguments; where the API has a value there, as that value."""

    def fault(api: str) -> ScriptedReply:
        chunks = events(api, Answer("x", [("Echo", {"MARK": 1})]))
        new = text if api == "gemini" else json.dumps(text)[1:-1]
        old = '{"MARK": 1}' if api == "gemini" else json.dumps('{"MARK": 1}')[1:-1]
        assert any(old.encode() in chunk for chunk in chunks)
        return Raw([chunk.replace(old.encode(), new.encode()) for chunk in chunks])

    return fault


def split_every(size: int, data: bytes) -> list[bytes]:
    """The bytes in pieces."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def status(code: int, message: str = "scripted", **fields) -> Fault:
    """An HTTP status."""
    return lambda _: Status(code, message, **fields)


ID = "call_test_1_0_0123456789"
KEYS = "text|content|delta|choices|candidates|parts|item|output|message"
COUNTS = "(?:input|output|prompt|completion|total)_tokens|(?:prompt|candidates|total)TokenCount"


def counts(value: str) -> Fault:
    """Replace every count of tokens."""
    return lambda api: Raw(
        [re.sub(rf'"({COUNTS})": [0-9]+', rf'"\1": {value}', e.decode()).encode() for e in events(api, PLAIN)]
    )


HTML = b"<html><body>Log in to <b>this network</b></body></html>"

FAULTS: Mapping[str, Fault] = {
    # the bytes of the stream
    "a byte at a time": whole(lambda data: split_every(1, data)),
    "three bytes at a time": whole(lambda data: split_every(3, data)),
    "one chunk": whole(lambda data: [data]),
    "CR LF": whole(lambda data: [data.replace(b"\n", b"\r\n")]),
    "CR alone": whole(lambda data: [data.replace(b"\n", b"\r")]),
    "a byte order mark": whole(lambda data: [b"\xef\xbb\xbf" + data]),
    "comments between events": built(lambda all: [part for event in all for part in (b": hi\n\n", event)]),
    "a retry field": whole(lambda data: [b"retry: 100\nid: 7\n\n" + data]),
    "no space after the colon": whole(lambda data: [data.replace(b"data: ", b"data:")]),
    "another name of the event": whole(lambda data: [re.sub(rb"event: [a-z_.]+", b"event: x", data)]),
    "gzip": whole(lambda data: [gzip.compress(data)], headers={"content-encoding": "gzip"}),
    "no gzip in spite of the header": whole(lambda data: [data], headers={"content-encoding": "gzip"}),
    "no content type": whole(lambda data: [data], content_type="x"),
    "half a character at the end": whole(lambda data: [data[: data.index("漢".encode()) + 2]]),
    "bytes that are no UTF-8": whole(lambda data: [data.replace("漢".encode(), b"\xff\xfe")]),
    "lone surrogates in the text": whole(lambda data: [data.replace("漢".encode(), b"\\ud83d")]),
    "NUL and control characters": lambda api: Raw(events(api, Answer("a\x00b\x1b[2J\x9b31m‮ ﻿", [CALL]))),
    # the order of the events
    "each event twice": built(lambda all: [event for each in all for event in (each, each)]),
    "the answer twice": built(lambda all: [*all, *all]),
    "another answer after the end": lambda api: Raw([*events(api, PLAIN), *events(api, CALLING)]),
    "events in reverse": built(lambda all: [all[0], *reversed(all[1:-2]), *all[-2:]]),
    "no first event": built(lambda all: all[1:]),
    "no last event": built(lambda all: all[:-1]),
    "no two last events": built(lambda all: all[:-2]),
    "no three last events": built(lambda all: all[:-3]),
    "only the first event": built(lambda all: all[:1]),
    "only the end": built(lambda all: all[-2:]),
    "every other event": built(lambda all: all[::2]),
    "no event": built(lambda all: []),
    "only comments": built(lambda all: [b": hi\n\n"] * 20),
    # values in events
    "events that are no objects": whole(lambda data: [b'data: [1]\n\ndata: null\n\ndata: "x"\n\ndata: 3\n\n', data]),
    "only events that are no objects": built(lambda all: [b"data: [1]\n\n", b"data: null\n\n"]),
    "an event that is no JSON": built(lambda all: [all[0], b"data: {broken\n\n", *all[1:]]),
    "an event with 200,000 levels": built(lambda all: [b"data: " + b"[" * 200_000 + b"]" * 200_000 + b"\n\n", *all]),
    "an integer of 5,000 digits in an event": built(lambda all: [b'data: {"n": 1' + b"0" * 5000 + b"}\n\n", *all]),
    "numbers for objects": lambda api: Raw(
        [re.sub(rf'"({KEYS})": (\{{|\[)', r'"\1": 7, "z": \2', e.decode()).encode() for e in events(api)]
    ),
    "null for objects": lambda api: Raw(
        [re.sub(rf'"({KEYS})": (\{{|\[)', r'"\1": null, "z": \2', e.decode()).encode() for e in events(api)]
    ),
    "lists for texts": lambda api: Raw(
        [re.sub(r'"(text|content|delta|name|type)": "[^"]*"', r'"\1": []', e.decode()).encode() for e in events(api)]
    ),
    "negative places": changed(r'"(?:output_)?index": [0-9]+', '"index": -3'),
    "infinite places": changed(r'"(output_)?index": [0-9]+', '"index": 1e999'),
    "places that are texts": changed(r'"output_index": [0-9]+', '"output_index": "zero"'),
    "the model is null": changed(r'"model(?:Version)?": "test"', '"model": null'),
    "another model": changed('"test"', '"another-model"'),
    "the user's role": changed('"assistant"|"model"(?=\\})', '"user"'),
    "unknown fields": changed(r"^data: \{", 'data: {"x": {"y": [1]}, ', count=1),
    # the end
    "an unknown stop reason": lambda api: Raw(events(api, Answer(TEXT, stop_reason="banana"))),
    "an unknown stop reason after a call": lambda api: Raw(events(api, Answer(TEXT, [CALL], stop_reason="banana"))),
    "no stop reason": changed(r'"(?:stop|finish)_?[rR]eason": "[^"]*"', '"x": "y"'),
    "the output limit": lambda api: Raw(events(api, Answer(TEXT, stop_reason="max_tokens"))),
    "the output limit in a call": lambda api: Raw(events(api, Answer("", [CALL], stop_reason="max_tokens"))),
    "a refusal": lambda api: Raw(events(api, Answer("No.", stop_reason="refusal"))),
    "the filter": lambda api: Raw(events(api, Answer("Half.", stop_reason="content_filter"))),
    "the end for calls without a call": lambda api: Raw(events(api, Answer(TEXT, stop_reason="tool_use"))),
    "the usual end after a call": lambda api: Raw(events(api, Answer(TEXT, [CALL], stop_reason="end_turn"))),
    "an empty answer": lambda api: Raw(events(api, Answer(""))),
    "spaces alone": lambda api: Raw(events(api, Answer(" \n\t "))),
    "spaces and a call": lambda api: Raw(events(api, Answer(" \n\t ", [CALL]))),
    "thinking alone": lambda api: Raw(events(api, Answer("", thinking="Hm."))),
    "thinking and spaces": lambda api: Raw(events(api, Answer("  ", thinking="Hm."))),
    "thinking and a call": lambda api: Raw(events(api, THINKING)),
    "thinking without a proof": changed(
        r'"(signature|encrypted_content|thoughtSignature)": "[^"]*"', '"x": "y"', THINKING
    ),
    "a stop sequence": lambda api: Raw(events(api, Answer(TEXT, stop_reason="stop_sequence"))),
    # calls
    "two calls with one id": lambda api: Raw(
        [event.replace(b"call_test_1_1_", b"call_test_1_0_") for event in events(api, Answer("x", [CALL, CALL]))]
    ),
    "the id of an earlier call": calling(CALL),
    "a call without an id": changed(f'"{ID}"', '""'),
    "null as the id": changed(f'"{ID}"', "null"),
    "a number as the id": changed(f'"{ID}"', "7"),
    "an id with other characters": changed(ID, "é 漢/" + "i" * 300),
    "an id with a line end": changed(ID, "call\\\\n1"),
    "a call without a name": calling(("", {"text": "x"})),
    "null as the name": changed('"Echo"', "null"),
    "a number as the name": changed('"Echo"', "7"),
    "a name with other characters": calling(("../../Echo it é", {"text": "x"})),
    "a name of 2,000 characters": calling(("n" * 2000, {})),
    "an unknown tool": calling(("Nothing", {"text": "x"})),
    "a hundred calls": calling(*[("Echo", {"text": str(at)}) for at in range(100)]),
    "a call beside one without a name": calling(CALL, ("", {"text": "x"})),
    # arguments
    "no arguments": given_arguments("{}"),
    "null as arguments": given_arguments("null"),
    "a list as arguments": given_arguments("[1, 2]"),
    "a text as arguments": given_arguments('"text"'),
    "a number as arguments": given_arguments("5"),
    "arguments that are cut": lambda api: status(500)(api) if api == "gemini" else given_arguments('{"text": "ag')(api),
    "NaN in arguments": given_arguments('{"text": NaN}'),
    "Infinity in arguments": given_arguments('{"text": "x", "path": -Infinity}'),
    "1e999 in arguments": given_arguments('{"text": 1e999}'),
    "an integer of 5,000 digits in arguments": given_arguments('{"text": 1' + "0" * 5000 + "}"),
    "an integer of 4,000 digits in arguments": given_arguments('{"text": 1' + "0" * 4000 + "}"),
    "arguments with 200 levels": given_arguments('{"text": ' + "[" * 200 + "]" * 200 + "}"),
    "arguments with 100,000 levels": given_arguments('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    "a lone surrogate in arguments": given_arguments('{"text": "g\\ud800.txt"}'),
    "a lone surrogate in a name of arguments": given_arguments('{"te\\udc00xt": "x", "text": "y"}'),
    "a name twice in arguments": given_arguments('{"text": "one", "text": "two"}'),
    "a key of nothing in arguments": given_arguments('{"": 1, "text": "x"}'),
    "arguments of two million characters": lambda api: Raw(
        split_every(65536, b"".join(events(api, Answer("x", [("Echo", {"text": "y" * 2_000_000})]))))
    ),
    # usage
    "no usage": changed('"usage(?:Metadata)?"', '"x"', PLAIN),
    "negative usage": counts("-5000000"),
    "usage in texts": counts('"12"'),
    "huge usage": counts("1" + "0" * 18),
    "usage of 5,000 digits": counts("1" + "0" * 5000),
    "usage as a fraction": counts("1.5e300"),
    "null as usage": counts("null"),
    "a list as usage": changed(r'"usage(?:Metadata)?": \{', '"usage": [1], "z": {', PLAIN),
    # HTTP
    "a page of HTML": lambda _: Raw([HTML], content_type="text/html"),
    "a whole answer as JSON": lambda _: Raw(
        [b'{"id": "x", "content": [], "choices": []}'], content_type="application/json"
    ),
    "garbage": lambda _: Raw([b"\x00\xff\x13garbage\n\n"]),
    "HTTP 400": status(400),
    "HTTP 400 with bytes": status(400, body=b"\xff\xfe\x00\x1b[2J"),
    "HTTP 401": status(401, "invalid x-api-key"),
    "HTTP 413": status(413),
    "HTTP 418": status(418),
    "HTTP 429": status(429),
    "HTTP 429, wait nan": status(429, retry_after="nan"),
    "HTTP 500": status(500, body=b"<html>" + b"x" * 1_000_000),
    "HTTP 529": status(529),
    "HTTP 301": status(301, headers={"location": "http://127.0.0.1:9/"}),
    "the stream breaks off in a character": lambda _: Cut(700, CALLING),
    "the stream breaks off at its start": lambda _: Cut(20, CALLING),
    "an error in the stream": lambda _: ErrorEvent(answer=CALLING, after_events=4),
    "a refusal in the stream": lambda _: ErrorEvent("invalid_request_error", "no", answer=CALLING, after_events=4),
    "silence": lambda _: Stall(2, CALLING, pings=False),
    "signs of life alone": lambda _: Stall(2, CALLING),
}
