"""Servers with the transport SSE on the loopback: a stream of events, a POST for each message, and failures."""

import json
import queue
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from teamwright.config.mcp_settings import configured_servers
from teamwright.config.settings.settings import McpSettings
from teamwright.mcp.json_rpc import McpServerError
from teamwright.mcp.server import McpServer
from tests.mcp.conftest import words
from tests.support.waits import WAIT_S

HELLO = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
END = None


class SseServer(ThreadingHTTPServer):
    """One stream at a time. `endpoint` is the address that it names; `status` answers the request for a stream."""

    daemon_threads = True

    def __init__(self, endpoint: str, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint, self.status = endpoint, status
        self.events: queue.Queue[bytes | None] = queue.Queue()
        self.posted: list[tuple[str, str, str]] = []
        self.streams = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/sse"


class Handler(BaseHTTPRequestHandler):
    server: SseServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.server.streams += 1
        self.server.events.put(END)  # the client has left the stream before this one
        self.server.events = events = queue.Queue()
        events.put(f"event: endpoint\ndata: {self.server.endpoint}\n\n".encode())
        while (event := events.get(timeout=WAIT_S)) is not END:
            self.wfile.write(event)
            self.wfile.flush()

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.posted.append((self.path, message["method"], self.headers.get("authorization", "")))
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()
        self.wfile.flush()
        if message["method"] == "initialize":
            self._event(message, HELLO)
        elif message["method"] == "tools/list":
            self._event(message, {"tools": [{"name": "echo"}, {"name": "end"}]})
        elif message["method"] == "tools/call" and message["params"]["name"] == "end":
            self.server.events.put(END)
        elif message["method"] == "tools/call":
            text = message["params"]["arguments"]["text"]
            self._event(message, {"content": [{"type": "text", "text": text}]})

    def _event(self, message: dict, result: dict) -> None:
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self.server.events.put(f"event: message\ndata: {answer}\n\n".encode())


@contextmanager
def serving(endpoint: str = "/messages?session=1", status: int = 200) -> Generator[SseServer, None, None]:
    server = SseServer(endpoint, status)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.events.put(END)
        server.shutdown()
        server.server_close()
        thread.join(WAIT_S)


def at(place, http: SseServer) -> McpServer:
    headers = {"Authorization": "Bearer hunter2hunter2"}
    return McpServer(place.config("old", type="sse", url=http.url, headers=headers), place.around())


@pytest.mark.finding("C5")
async def test_a_server_with_the_transport_sse_is_called_on_one_stream(place):
    with serving() as http:
        server = at(place, http)
        assert words(await server.call_tool("echo", {"text": "é\u2028"})) == "é\u2028"
        assert words(await server.call_tool("echo", {"text": "two"})) == "two"
        await server.close()
        assert http.streams == 1
        assert [method for _, method, _ in http.posted[:3]] == ["initialize", "notifications/initialized", "tools/list"]
        assert {(path, login) for path, _, login in http.posted} == {
            ("/messages?session=1", "Bearer hunter2hunter2"),
        }


async def test_a_call_fails_when_the_stream_ends_and_the_next_call_opens_another(place):
    with serving() as http:
        server = at(place, http)
        with pytest.raises(McpServerError, match="ended the stream of events"):
            await server.call_tool("end", {})
        assert words(await server.call_tool("echo", {"text": "again"})) == "again"
        assert http.streams == 2
        await server.close()


@pytest.mark.parametrize("other", ["http://127.0.0.1:{}/take", "//127.0.0.1:{}/take", "http://localhost:{}x/take"])
async def test_headers_are_not_sent_to_an_address_of_another_origin(place, other):
    with serving() as thief, serving(other.format(thief.server_port)) as http:
        server = at(place, http)
        with pytest.raises(McpServerError, match="not at its own origin"):
            await server.call_tool("echo", {"text": "x"})
        await server.close()
        assert not thief.posted and not http.posted


@pytest.mark.parametrize(
    ("status", "said"), [(401, r"wants a login \(HTTP 401\)"), (307, "has moved"), (405, "is its type http")]
)
async def test_a_refused_stream_is_reported_with_its_status(place, status, said):
    with serving(status=status) as http:
        server = at(place, http)
        with pytest.raises(McpServerError, match=said):
            await server.call_tool("echo", {"text": "x"})
        await server.close()
        assert not http.posted


@pytest.mark.finding("C5")
def test_an_entry_of_the_type_sse_in_a_flag_stops_no_run(tmp_path):
    flag = '{"mcpServers": {"old": {"type": "sse", "url": "http://x.example/sse"}, "db": {"command": "db"}}}'
    found, warnings = configured_servers(McpSettings(), [flag], tmp_path, {}, frozenset())
    assert [(one.name, one.kind) for one in found] == [("old", "sse"), ("db", "stdio")] and not warnings
