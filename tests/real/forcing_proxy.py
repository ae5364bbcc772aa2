"""A proxy between the program and llama.cpp that makes a small model give the answers of a plan.

The stream is the server's own: chunks, counts, ids and the parsed call. The proxy changes the request alone. For a call
it leaves one tool, whose arguments can have one value each, demands a call, and begins it; llama.cpp makes a grammar of
that, and a second call is where it stops. The template gets all tools as `shown`, so that the prompt is as it was and
stays in the cache. For words it forbids calls, and stops at the first mark. A request that bounds its answer by itself
keeps its bound; where that is a tool that must be called, the call is begun.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from tests.support.model_requests import teammate_of

ANSWER_S = 600.0
CALL_TOKENS = 300
WORD_TOKENS = 48
CALL_BEGIN = "<tool_call>\n"
"""What the template has before a call."""

WORDS_BEGIN = "I am"
MARKS = [".", ",", "!", "?", ":", ";", "\n"]
BOUNDS = {"response_format", "text"}
"""Fields of a request that bounds its answer by a schema."""

HOPS = {"connection", "content-length", "host", "transfer-encoding"}
"""Headers of one connection."""


class Call(Struct, frozen=True):
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any]


class Wire(Struct, frozen=True):
    """How a request of a wire says what the proxy sets."""

    messages: str
    tokens: str
    stop: str
    schema: str
    choices: tuple[Any, Any]
    """A demand for a call, and a ban."""


CHAT = Wire("messages", "max_tokens", "stop", "parameters", ("required", "none"))
MESSAGES = Wire("messages", "max_tokens", "stop_sequences", "input_schema", ({"type": "any"}, {"type": "none"}))
RESPONSES = Wire("input", "max_output_tokens", "stop", "parameters", ("required", "none"))
WIRES = {"/v1/chat/completions": CHAT, "/v1/messages": MESSAGES, "/v1/responses": RESPONSES}


def agent_of(body: dict[str, Any]) -> str:
    """Return the name of a teammate, or `lead`."""
    return teammate_of(body) or "lead"


class ForcingProxy:
    """A proxy on a free port of 127.0.0.1. The calls of `plan` are made in order by each agent; then it says words."""

    def __init__(
        self,
        url: str,
        plan: Mapping[str, Sequence[Call]],
    ) -> None:
        self._to = urlsplit(url)
        self._lock = threading.Lock()
        self.follow(plan)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def follow(self, plan: Mapping[str, Sequence[Call]], *, breaks_after: int = 0, is_free: bool = False) -> None:
        """Begin a plan. `breaks_after`: each answer breaks off after so many pieces; 0: none does. `is_free`: the
        model says what it likes.
        """
        self._is_free = is_free
        self._left = {name: list(calls) for name, calls in plan.items()}
        self._breaks_after = breaks_after
        self.asked: list[str] = []
        """The agents that asked, in order."""

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(ANSWER_S)

    def left(self) -> dict[str, list[Call]]:
        """Return the calls that were not made yet."""
        return {name: calls for name, calls in self._left.items() if calls}

    def forced(self, path: str, body: bytes) -> bytes:
        """Return a request as it goes to the server."""
        wire = WIRES.get(urlsplit(path).path)
        if wire is None or not body or self._is_free:
            return body
        fields: dict[str, Any] = json.loads(body)
        agent = agent_of(fields)
        with self._lock:
            self.asked.append(agent)
            calls = self._left.get(agent)
            call = calls.pop(0) if calls and fields.get("tools") else None
        if fields.keys() & BOUNDS:
            fields[wire.tokens] = CALL_TOKENS
        elif isinstance(fields.get("tool_choice"), dict) and "name" in fields["tool_choice"]:
            fields = {**_begun(wire, fields, CALL_BEGIN, [CALL_BEGIN.strip()]), wire.tokens: CALL_TOKENS}
        else:
            fields = _with_call(wire, fields, call) if call else _with_words(wire, fields)
        return json.dumps(fields).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                proxy._forward(self)

            def do_POST(self) -> None:
                proxy._forward(self)

        return Handler

    def _forward(self, asked: BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("content-length") or 0))
        headers = {name: value for name, value in asked.headers.items() if name.lower() not in HOPS}
        connection = HTTPConnection(self._to.hostname or "", self._to.port, timeout=ANSWER_S)
        try:
            connection.request(asked.command, asked.path, self.forced(asked.path, body), headers)
            answer = connection.getresponse()
            asked.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOPS:
                    asked.send_header(name, value)
            asked.send_header("transfer-encoding", "chunked")
            asked.end_headers()
            pieces = 0
            while piece := answer.read1(65536):
                asked.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                pieces += 1
                if pieces == self._breaks_after and asked.command == "POST":
                    asked.close_connection = True
                    return
            asked.wfile.write(b"0\r\n\r\n")
        except (OSError, HTTPException):
            asked.close_connection = True  # one side is gone, and the other one sees it
        finally:
            connection.close()


def _with_call(wire: Wire, fields: dict[str, Any], call: Call) -> dict[str, Any]:
    shown = [_shown(wire, tool) for tool in fields["tools"]]
    tool = next(tool for tool in fields["tools"] if tool.get("function", tool)["name"] == call.name)
    schema = {
        "type": "object",
        "properties": {name: {"const": value} for name, value in call.arguments.items()},
        "required": list(call.arguments),
        "additionalProperties": False,
    }
    one = (
        {**tool, "function": {**tool["function"], wire.schema: schema}}
        if "function" in tool
        else {**tool, wire.schema: schema}
    )
    return {
        **_begun(wire, fields, CALL_BEGIN, [CALL_BEGIN.strip()]),
        "tools": [one],
        "tool_choice": wire.choices[0],
        "chat_template_kwargs": {"shown": shown},
        wire.tokens: CALL_TOKENS,
    }


def _with_words(wire: Wire, fields: dict[str, Any]) -> dict[str, Any]:
    banned = {"tool_choice": wire.choices[1]} if fields.get("tools") else {}
    return {**_begun(wire, fields, WORDS_BEGIN, MARKS), **banned, wire.tokens: WORD_TOKENS}


def _begun(wire: Wire, fields: dict[str, Any], text: str, stop: Sequence[str]) -> dict[str, Any]:
    """Return a request for an answer that begins with a text and stops before other ones."""
    message = {"type": "message"} if wire is RESPONSES else {}
    before = fields[wire.messages]
    return {
        **fields,
        wire.messages: [*before, {**message, "role": "assistant", "content": text}],
        wire.stop: list(stop),
    }


def _shown(wire: Wire, tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as the server gives it to the template."""
    about = tool.get("function", tool)
    known = {"name": about["name"], "description": about.get("description", ""), "parameters": about[wire.schema]}
    return {"type": "function", "function": known}
