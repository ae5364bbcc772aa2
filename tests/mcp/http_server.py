"""A streamable HTTP server on the loopback in plain Python: JSON or a stream of events, sessions, misbehaviour."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.waits import WAIT_S

TOOLS = [
    {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object", "properties": {"text": {}}}},
    {"name": "headers", "inputSchema": {"type": "object"}},
    {"name": "hang", "inputSchema": {"type": "object"}},
    {"name": "cut", "inputSchema": {"type": "object"}},
    {"name": "huge", "inputSchema": {"type": "object"}},
    {"name": "forget", "inputSchema": {"type": "object"}},
    {"name": "page", "inputSchema": {"type": "object"}},
    {"name": "later", "inputSchema": {"type": "object"}},
]


class HttpServer(ThreadingHTTPServer):
    """What was asked of it. `stream`: answers are events. `status`: every answer is an error of that number.

    `unknown` is the error of a session that it does not know. `tasks`: calls run as a task that stays in `state`; its
    value is the method that fails, or empty. `silent` is a method without an answer.
    """

    daemon_threads = True

    def __init__(
        self,
        *,
        stream: bool = False,
        status: int = 0,
        modern: bool = False,
        unknown: int = 404,
        tasks: str | None = None,
        state: object = "working",
        silent: str = "",
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tasks, self.state, self.silent = tasks, state, silent
        self.polled = threading.Event()
        self.stream, self.status, self.modern, self.unknown = stream, status, modern, unknown
        self.sessions: list[str] = []
        self.deleted: list[str] = []
        self.told: list[str] = []
        self.sent: list[dict[str, str]] = []
        self.held = threading.Event()
        self.hung = threading.Event()
        self.pushed: list[dict] = []
        self.resumed: list[str | None] = []
        self.owed: object = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


@contextmanager
def serving(**habits) -> Generator[HttpServer, None, None]:
    server = HttpServer(**habits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.held.set()
        server.shutdown()
        thread.join(WAIT_S)
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        """Continue the stream of `later`, or send what belongs to no request, if there is anything."""
        last = self.headers["last-event-id"]
        self.server.resumed.append(last)
        if last is None and not self.server.pushed:
            self.reply(405, b"")
            return
        answer = {"id": self.server.owed, "result": {"content": [{"type": "text", "text": f"after {last}"}]}}
        said = self.server.pushed if last is None else [answer] if len(self.server.resumed) > 2 else []
        events = "".join(f"data: {json.dumps({'jsonrpc': '2.0', **one})}\n\n" for one in said)
        self.reply(200, (events or "id: 8\n\n").encode(), kind="text/event-stream")

    def do_DELETE(self) -> None:
        self.server.deleted.append(self.headers["mcp-session-id"])
        self.reply(200, b"")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server, method = self.server, message.get("method")
        server.told.append(method)
        server.sent.append({name.lower(): value for name, value in self.headers.items()})
        if server.status:
            self.reply(server.status, b"no", location="http://127.0.0.1:1/")
            return
        if "id" not in message:
            self.reply(202, b"")
            return
        if method == "initialize" and server.modern:
            body = {"error": {"code": -32022, "message": "no handshake", "data": {"supported": ["2026-07-28"]}}}
            self.reply(400, json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}).encode())
            return
        if method == "initialize":
            server.sessions.append(f"session-{len(server.sessions) + 1}")
            has = {"tools": {}} | ({} if server.tasks is None else {"tasks": {"requests": {"tools": {"call": {}}}}})
            result = {"protocolVersion": "2025-06-18", "capabilities": has, "serverInfo": {"name": "h"}}
            self.answer(message["id"], result, session=server.sessions[-1])
            return
        if not server.modern and self.headers["mcp-session-id"] != server.sessions[-1]:
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            self.reply(server.unknown, json.dumps({"jsonrpc": "2.0", "error": error}).encode())
            return
        self.served(message)

    def served(self, message: dict) -> None:
        method, params = message["method"], message.get("params", {})
        if method == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        elif method == "tools/list":
            execution = {"execution": {"taskSupport": "required"}} if self.server.tasks is not None else {}
            result = {"tools": [one | execution for one in TOOLS]}
        elif method.startswith("tasks/") or "task" in params:
            if method == "tasks/get":
                self.server.polled.set()
            if method == self.server.silent:
                self.server.held.wait(WAIT_S)
                return
            if method == self.server.tasks:
                self.reply(500, b"no")
                return
            state = {"taskId": "task-1", "status": self.server.state, "pollInterval": 1}
            result = {"task": state} if "task" in params else state
        else:
            self.server.owed = message["id"]
            result = self.called(params["name"], params["arguments"])
        if result is not None:
            self.answer(message["id"], result)

    def called(self, name: str, given: dict) -> dict | None:
        words = name
        if name == "echo":
            words = given["text"]
        elif name == "headers":
            words = json.dumps(self.server.sent[-1])
        elif name == "hang":
            self.server.hung.set()
            self.server.held.wait(WAIT_S)
            self.close_connection = True
            return None
        elif name == "cut":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b": hello\n\n")
            self.close_connection = True
            return None
        elif name == "later":
            cut = b'id: 9\nevent: message\ndata: {"jsonrpc": "2.0",\ndata: "i'
            self.reply(200, b"id: 7\nretry: 60\ndata: \n\n" + cut, kind="text/event-stream")
            return None
        elif name == "huge":
            words = "x" * 20_000_000
        elif name == "forget":
            self.server.sessions.append("another")
        elif name == "page":
            self.reply(200, b"<html>hello</html>", kind="text/html")
            return None
        return {"content": [{"type": "text", "text": words}]}

    def answer(self, number: object, result: dict, session: str = "") -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}, ensure_ascii=False).encode()
        if self.server.stream:
            note = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\r\n\r\n'
            self.reply(
                200, b": ping\r\n\r\n" + note + b"id: 1\r\ndata:" + body + b"\r\n\r\n", "text/event-stream", session
            )
        else:
            self.reply(200, body, session=session)

    def reply(
        self, status: int, body: bytes, kind: str = "application/json", session: str = "", location: str = ""
    ) -> None:
        self.send_response(status)
        if body:
            self.send_header("content-type", kind)
        if session:
            self.send_header("mcp-session-id", session)
        if location:
            self.send_header("location", location)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
