"""Our client and servers of the official SDK understand each other, over every way that we speak."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teamwright.mcp.json_rpc import CallDeadline
from teamwright.mcp.server import McpServer
from tests.mcp.conftest import words
from tests.support.waits import WAIT_S

SDK = str(Path(__file__).with_name("sdk_server.py"))


@contextmanager
def behind_an_address(habit: str) -> Generator[str, None, None]:
    """The SDK's server on a free port of this machine, once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, SDK, habit, str(port)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("running on" in line for line in process.stderr), "it ended before it listened"
        yield f"http://127.0.0.1:{port}/{'sse' if habit == 'sse' else 'mcp'}"
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


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
