"""Servers as processes: used, cancelled, killed, hostile; whatever they do, their callers go on and nothing is left."""

import asyncio
import json
import os
import signal

import pytest

from teamwright.mcp.json_rpc import McpRequestError, McpServerError
from teamwright.mcp.server import MAX_FAILED_STARTS, ServerTimeouts
from teamwright.processes.process_tree import list_processes
from tests.mcp.conftest import words
from tests.support.waits import WAIT_S


def alive(pid: int) -> bool:
    return any(pid in {row.pid, row.group} for row in list_processes())


async def pid_of(server) -> int:
    return int(words(await server.call_tool("pid", {})))


@pytest.mark.promise("H7")
async def test_a_server_is_started_at_its_first_call_and_shared_by_all_that_call(place):
    server = place.server("banner")
    assert (server.state, server.tools, place.records) == ("asleep", None, [])
    async with asyncio.timeout(WAIT_S):
        answers = await asyncio.gather(*(server.call_tool("echo", {"text": str(n)}) for n in range(20)), pid_of(server))
    assert [words(answer) for answer in answers[:20]] == [str(n) for n in range(20)]
    assert (server.state, answers[20]) == ("running", server.pid)
    assert [tool.remote_name for tool in server.tools] == place.listed()
    assert len(server.tools) == 14  # of three pages
    echo = server.find_tool("mcp__plain__echo")
    assert echo.schema == {
        "type": "object",
        "properties": {"text": {"type": "string"}, "list": {"type": "array", "items": {}}},
        "required": ["text"],
    }
    assert place.said == [
        'the MCP server "plain" prints what is no message to its stdout, which is left out: '
        "Server 1.0 listening on stdio"
    ]
    [record] = place.records
    assert str(server.pid) in record.read_text()
    await server.close()
    assert not alive(answers[20])
    assert not place.records


@pytest.mark.promise("H7")
async def test_a_list_is_known_at_the_next_start_without_starting_anything(place):
    first = place.server()
    await first.connect()
    await first.close()
    again = place.server()
    assert [tool.name for tool in again.tools] == [tool.name for tool in first.tools]
    assert again.state == "asleep"
    assert place.server(env={"OTHER": "1"}).tools is None  # another configuration is another server
    [file] = (place.root / "listings").glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    for damage in (b"", b"[]", b'{"v": 1, "tools": 3}', b'{"v": 2, "tools": []}', b"\xff" * 100):
        file.write_bytes(damage)
        assert place.server().tools is None


async def test_it_sees_its_own_variables_and_not_those_of_others(place, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    monkeypatch.setenv("GIVEN", "value")
    server = place.server(env={"MINE": "a ${GIVEN} ${UNSET:-other}"})
    assert words(await server.call_tool("env", {"name": "MINE"})) == "a value other"
    assert words(await server.call_tool("env", {"name": "ANTHROPIC_API_KEY"})) == "(unset)"
    await server.close()


async def test_who_cancels_a_call_ends_nothing_else_and_the_server_is_told(place):
    server = place.server()
    waiting = asyncio.create_task(server.call_tool("wait", {}))
    other = asyncio.create_task(server.call_tool("wait", {}))
    await server.connect()
    await server.call_tool("pid", {})  # both calls are with the server by now
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled() and not other.done()
    [number] = json.loads(words(await server.call_tool("cancelled", {})))
    assert isinstance(number, int)
    other.cancel()
    await asyncio.wait({other})
    await server.close()


async def test_who_cancels_the_wait_for_a_start_does_not_end_the_start(place):
    server = place.server()
    first = asyncio.create_task(server.connect())
    second = asyncio.create_task(server.connect())
    await asyncio.sleep(0)
    first.cancel()
    async with asyncio.timeout(WAIT_S):
        assert await second is await server.connect()
    await server.close()


async def test_a_call_that_takes_too_long_ends_with_where_it_was(place):
    server = place.server(timeout=300)
    with pytest.raises(McpServerError, match=r"gave no answer in 0.3 s; it was at 2 of 3: still at it"):
        await server.call_tool("progress", {})
    with pytest.raises(McpServerError, match=r"gave no answer in 0.3 s$"):
        await server.call_tool("wait", {})
    assert words(await server.call_tool("echo", {"text": "here"})) == "here"
    await server.close()


@pytest.mark.promise("H7", "P7")
async def test_progress_that_no_number_of_ours_holds_is_left_out_and_the_answer_is_heard(place):
    server = place.server("forges")
    async with asyncio.timeout(WAIT_S):
        assert words(await server.call_tool("beyond", {})) == "still here"
    await server.close()


async def test_an_error_of_a_server_is_its_answer(place):
    server = place.server()
    with pytest.raises(McpRequestError, match="answered with error -32602: there is no such tool"):
        await server.call_tool("nothing", {})
    assert (await server.call_tool("broken", {}))["isError"]
    await server.close()


@pytest.mark.promise("F62")
async def test_one_that_dies_fails_its_calls_at_once_is_reported_once_and_started_again_by_the_next(place):
    server = place.server(env={"SECRET": "hunter2hunter2"})
    before = await pid_of(server)
    waiting = asyncio.create_task(server.call_tool("wait", {}))
    with pytest.raises(McpServerError, match=r"ended \(exit code 7\); its last output: it hurts") as death:
        await server.call_tool("die", {})
    with pytest.raises(McpServerError):
        await waiting
    assert death.value.is_dead and server.can_restart
    assert "hunter2" not in place.said[-1] and "****" in place.said[-1]
    after = await pid_of(server)
    assert after != before and not alive(before)
    os.kill(after, signal.SIGKILL)
    with pytest.raises(McpServerError, match=r"signal 9|is not connected"):
        await server.call_tool("wait", {})
    assert len(place.said) == 2
    await server.close()
    assert not place.records


async def test_one_that_never_comes_up_is_given_up_after_a_few_starts(place):
    server = place.server("fails", env={"SECRET": "hunter2hunter2"})
    for _ in range(MAX_FAILED_STARTS):
        with pytest.raises(McpServerError, match="its last output: no database at"):
            await server.call_tool("pid", {})
    with pytest.raises(McpServerError, match="is not started again in this session"):
        await server.call_tool("pid", {})
    assert (server.state, server.can_restart, len(place.said)) == ("failed", False, 1)
    assert "hunter2" not in place.said[0]
    await server.close()
    assert not place.records


@pytest.mark.parametrize(
    ("habit", "said"),
    [
        ("deaf", "was not ready in 1 s"),
        ("ancient", r"speaks another version of the protocol \(1999-01-01\)"),
        ("noise", "MB that were not requested|was not ready in"),
    ],
)
@pytest.mark.slow_after(1)
async def test_one_that_cannot_be_spoken_to_is_ended(place, habit, said):
    place.limits = ServerTimeouts(start_s=1 if habit == "deaf" else WAIT_S)
    server = place.server(habit)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(McpServerError, match=said):
            await server.connect()
    assert not place.records
    await server.close()


@pytest.mark.slow
@pytest.mark.promise("F62")
@pytest.mark.parametrize(("tool", "said"), [("flood", "were not requested"), ("line", "a message of more than")])
async def test_a_flood_ends_the_server_and_nobody_else(place, tool, said):
    server = place.server()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(McpServerError, match=said):
            await server.call_tool(tool, {})
        assert turns > 100
        assert words(await server.call_tool("echo", {"text": "again"})) == "again"
    beside.cancel()
    await server.close()
    assert not place.records
    assert sum(file.stat().st_size for file in (place.root / "logs").iterdir()) < 2_000_000


async def test_a_program_that_does_not_exist_is_an_answer(place):
    server = place.server(command="/no/such/program")
    with pytest.raises(McpServerError, match="could not be started: /no/such/program: No such file"):
        await server.connect()
    assert not place.records
    await server.close()


async def test_what_is_no_message_is_left_out_and_what_asks_us_is_refused(place):
    server = place.server()
    assert words(await server.call_tool("odd", {})) == "odd"
    assert words(await server.call_tool("echo", {"text": "here"})) == "here"
    assert len(place.said) == 1 and "hello, I am a banner" in place.said[0]
    await server.close()


async def test_one_without_a_handshake_is_spoken_to_as_it_wants(place):
    server = place.server("modern")
    client = await server.connect()
    assert (client.version, words(await server.call_tool("echo", {"text": "new"}))) == ("2026-07-28", "new")
    await server.close()


async def test_a_new_list_is_kept_for_agents_that_are_born_later(place):
    server = place.server()
    assert words(await server.call_tool("grow", {})) == "grown"
    async with asyncio.timeout(WAIT_S):
        while server.find_tool("mcp__plain__grown") is None:
            await server.call_tool("pid", {})
    assert "grown" in place.listed()
    await server.close()


@pytest.mark.promise("F62", "F21")
@pytest.mark.slow
async def test_closing_ends_the_family_of_a_server_that_will_not_go(place):
    server = place.server("stubborn", "child")
    pid = await pid_of(server)
    grown = {row.pid for row in list_processes() if row.parent == pid}
    assert grown
    async with asyncio.timeout(WAIT_S):
        await server.close()
        await server.close()
    assert not alive(pid) and not any(alive(one) for one in grown)
    with pytest.raises(McpServerError, match="closed with the session"):
        await server.call_tool("pid", {})


async def test_closing_while_it_starts_leaves_nothing(place):
    server = place.server("banner", "deaf")
    starting = asyncio.create_task(server.connect())
    async with asyncio.timeout(WAIT_S):
        await place.heard.wait()
        assert place.records
        await server.close()
        await asyncio.wait({starting})
    assert not place.records
