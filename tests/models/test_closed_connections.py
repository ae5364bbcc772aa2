"""A server that closes an idle connection just as it is used again: the request is repeated at once, on another one."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from teamwright.models.model import Failure, Reply, Retrying
from teamwright.testing.model_server_replies import Answer, stream_bytes
from tests.support.waits import WAIT_S


@asynccontextmanager
async def closing_server(answers_each):
    """Answers so many requests on each connection; the next request there is read, and the connection closed."""
    body = stream_bytes(Answer("Yes."))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    connections = []

    async def serve(reader, writer):
        connections.append(writer)
        left = answers_each[min(len(connections), len(answers_each)) - 1]
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                size = int(request.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(size)
                if not left:
                    return
                left -= 1
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections
    finally:
        server.close()
        for writer in connections:
            writer.close()


async def test_a_request_on_a_connection_that_was_closed_is_repeated_at_once(client, quick):
    settings = quick(retries=0, backoff_s=WAIT_S * 10, backoff_most_s=WAIT_S * 10)
    async with (
        asyncio.timeout(WAIT_S),
        closing_server([1, 9]) as (url, connections),
        client(url, settings=settings) as caller,
    ):
        assert isinstance((await caller.ask()).last, Reply)
        asked = await caller.ask()
        assert isinstance(asked.last, Reply), asked.last
        assert not asked.of(Retrying) and not asked.last.failed_usage.requests
        assert len(connections) == 2


@pytest.mark.parametrize(("answers_each", "connections_used"), [([0], 1), ([1, 0], 2)])
async def test_a_server_that_closes_every_connection_is_not_asked_again_and_again(
    client, quick, answers_each, connections_used
):
    async with (
        asyncio.timeout(WAIT_S),
        closing_server(answers_each) as (url, connections),
        client(url, settings=quick(retries=0)) as caller,
    ):
        parts = [(await caller.ask()).last for _ in range(connections_used)]
        assert isinstance(parts[-1], Failure)
        assert len(connections) == connections_used
