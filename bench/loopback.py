"""A model server in a process of its own: `python -m bench.loopback TURNS` prints its address and serves until killed.

Answers a request with a tool call until the conversation holds TURNS of them, then with text. Streams as the
Messages API does, from bytes made before: its own cost does not slow what is measured.
"""

from __future__ import annotations

import asyncio
import sys

from bench.turns import ANSWER, TOOL, tool_input
from teamwright.testing.model_server_replies import Answer, stream_bytes

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_bench\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


def _whole(answer: Answer) -> bytes:
    body = stream_bytes(answer, prompt_tokens=100, number=0, model="bench")
    return _HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


class Connection(asyncio.Protocol):
    """One connection: requests with a content length in, one whole answer each out."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        # As many as `tool_input` has: calls that repeat one another would end the turn.
        self._calls = [_whole(Answer(tools=[(TOOL, tool_input(n))])) for n in range(100)]
        self._text = _whole(Answer(ANSWER))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer when a request is whole."""
        self._buffer += data
        at = self._buffer.find(_END_OF_HEAD)
        if at < 0:
            return
        head = bytes(self._buffer[:at]).lower()
        length = head.partition(_LENGTH)[2].partition(b"\r\n")[0]
        end = at + len(_END_OF_HEAD) + int(length or 0)
        if len(self._buffer) < end or self._transport is None:
            return
        body = bytes(self._buffer[at:end])
        del self._buffer[:end]
        done = body.count(b'"type":"tool_result"')
        answer = self._calls[done % len(self._calls)] if done < self._turns else self._text
        self._transport.write(answer.replace(b"toolu_test_0_0", b"toolu_b_%06d" % done))


async def serve(turns: int) -> None:
    """Listen on a free port of this machine, print the address, and stay."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(turns), "127.0.0.1", 0, backlog=2048)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
