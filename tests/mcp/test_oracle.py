"""Our client and servers of the official SDK understand each other, over every way that we speak."""

import asyncio

import pytest

from teamwright.mcp.json_rpc import CallDeadline
from teamwright.mcp.server import McpServer
from tests.mcp.conftest import words
from tests.mcp.sdk_processes import SDK, behind_an_address
from tests.support.waits import WAIT_S


@pytest.mark.slow_after(1)
@pytest.mark.promise("H7")
@pytest.mark.parametrize("way", ["stdio", "events", "json", "sse"])
async def test_the_official_sdk_understands_us_and_we_it(place, way):
    if way == "stdio":
        await understand(McpServer(place.config("sdk", args=[SDK, "stdio"]), place.around()))
        return
    with behind_an_address(way) as url:
        await understand(
            McpServer(place.config("sdk", url=url, type="sse" if way == "sse" else "http"), place.around())
        )


async def understand(server: McpServer) -> None:
    async with asyncio.timeout(WAIT_S):
        client = await server.connect()
        assert [tool.remote_name for tool in server.tools or ()] == ["add", "boom", "count"]
        add = server.find_tool("mcp__sdk__add")
        assert add is not None and add.required_parameters == ["a"] and add.description == "Adds two numbers."
        assert add.schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}}
        sums = await asyncio.gather(*(server.call_tool("add", {"a": n}) for n in range(5)))
        assert [words(one) for one in sums] == [str(n + 2) for n in range(5)]
        assert (await server.call_tool("boom", {}))["isError"] and (await server.call_tool("add", {"a": "x"}))[
            "isError"
        ]
        clock = CallDeadline(30, 30)
        assert words(await client.call_tool("count", {}, clock)) == "three"
        assert clock.last_progress.startswith("2 of 3: step 2") or server.config.kind == "http"
        await server.close()
