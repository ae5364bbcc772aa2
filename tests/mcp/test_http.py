"""Servers behind an address on the loopback: JSON and streams, sessions, headers, and everything that goes wrong."""

import asyncio
import json

import pytest

from teamwright.mcp.json_rpc import McpServerError
from teamwright.mcp.session_servers import McpServerPool
from tests.mcp.conftest import words
from tests.mcp.http_server import serving
from tests.support.waits import WAIT_S


def at(place, server, **more):
    from teamwright.mcp.server import McpServer

    return McpServer(place.config("web", url=server.url, **more), place.around())


@pytest.mark.promise("H7")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_behind_an_address_is_called_in_one_session_that_is_ended(place, stream):
    with serving(stream=stream) as http:
        server = at(place, http, headers={"Authorization": "Bearer ${TOKEN:-abc123456}", "Accept": "mine"})
        answers = await asyncio.gather(*(server.call_tool("echo", {"text": f"é {n}\u2028"}) for n in range(5)))
        assert [words(answer) for answer in answers] == [f"é {n}\u2028" for n in range(5)]
        seen = json.loads(words(await server.call_tool("headers", {})))
        assert (seen["authorization"], seen["mcp-session-id"]) == ("Bearer abc123456", "session-1")
        assert (seen["mcp-protocol-version"], seen["accept"]) == ("2025-06-18", "application/json, text/event-stream")
        assert http.told[:3] == ["initialize", "notifications/initialized", "tools/list"]
        await server.close()
        assert http.deleted == ["session-1"]


async def test_one_without_a_handshake_gets_its_headers(place):
    with serving(modern=True) as http:
        server = at(place, http)
        seen = json.loads(words(await server.call_tool("headers", {})))
        assert (seen["mcp-protocol-version"], seen["mcp-method"], seen["mcp-name"]) == (
            "2026-07-28",
            "tools/call",
            "headers",
        )
        assert "mcp-session-id" not in seen
        await server.close()
        assert not http.deleted


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, r"wants a login \(HTTP 401\)"),
        (307, r"has moved \(HTTP 307\)"),
        (500, "answered with HTTP 500 and no message"),
    ],
)
async def test_an_answer_that_is_none_is_said_and_no_redirect_is_followed(place, status, said):
    with serving(status=status) as http:
        server = at(place, http, headers={"X-Key": "hunter2hunter2"})
        with pytest.raises(McpServerError, match=said):
            await server.call_tool("echo", {"text": "x"})
        assert len(http.told) == 1 and "hunter2" not in "".join(place.said)
        await server.close()


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("cut", "ended its stream without an answer|broke off"),
        ("huge", "a message of more than|more than its answer may hold"),
        ("page", "answered with HTTP 200 and no message"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.slow_after(2)
async def test_a_bad_answer_ends_its_call_and_no_other(place, tool, said, stream):
    with serving(stream=stream) as http:
        server = at(place, http)
        waiting = asyncio.create_task(server.call_tool("hang", {}))
        async with asyncio.timeout(WAIT_S):
            await asyncio.to_thread(http.hung.wait, WAIT_S)
            with pytest.raises(McpServerError, match=said):
                await server.call_tool(tool, {})
            assert words(await server.call_tool("echo", {"text": "on"})) == "on"
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})
            await server.close()


@pytest.mark.finding("C5")
async def test_a_stream_that_ends_before_its_answer_is_continued_after_its_last_event(place):
    with serving() as http:
        server = at(place, http)
        async with asyncio.timeout(WAIT_S):
            assert words(await server.call_tool("later", {})) == "after 8"
            assert http.resumed == [None, "7", "8"], "the first one asks for messages that belong to no request"
            await server.close()


@pytest.mark.finding("C5")
async def test_messages_that_belong_to_no_request_arrive_by_a_stream_of_their_own(place):
    with serving() as http:
        http.pushed.append(
            {"method": "notifications/message", "params": {"level": "error", "data": "the disk is full"}}
        )
        server = at(place, http)
        async with asyncio.timeout(WAIT_S):
            await server.connect()
            await place.heard.wait()
            assert 'the MCP server "web" reports an error: the disk is full' in place.said
            await server.close()


@pytest.mark.parametrize("unknown", [404, 400])
async def test_a_session_that_a_server_forgot_is_begun_again_by_the_next_call(place, unknown):
    with serving(unknown=unknown) as http:
        server = at(place, http)
        await server.call_tool("forget", {})
        with pytest.raises(McpServerError, match="has forgotten the session"):
            await server.call_tool("echo", {"text": "lost"})
        assert words(await server.call_tool("echo", {"text": "again"})) == "again"
        assert http.told.count("initialize") == 2
        await server.close()


async def test_nobody_there_is_said_within_the_bounds_of_a_start(place):
    with serving() as http:
        config = place.config("web", url=http.url)
    servers = McpServerPool(place.around())
    servers.add([config])
    async with asyncio.timeout(WAIT_S):
        await servers.wait_for_tools(servers.shared)
    [server] = servers.shared
    assert (server.state, server.problem) == ("failed", "cannot be reached")
    await servers.close()
