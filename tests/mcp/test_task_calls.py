"""Tool calls as tasks, subscriptions after a restart, and log messages, with a server as a process."""

import asyncio
import json

import pytest

from teamwright.mcp import client
from teamwright.mcp.json_rpc import McpServerError
from teamwright.mcp.server import MAX_LOG_BYTES, MAX_SHOWN_ERRORS, McpServer, ServerLog, ServerTimeouts
from tests.mcp.http_server import serving
from tests.support.waits import WAIT_S

pytestmark = [pytest.mark.finding("C5"), pytest.mark.promise("H7")]


def said(result) -> str:
    return result["content"][0]["text"]


async def test_a_tool_that_runs_as_a_task_is_polled_until_its_result_is_there(place):
    async with asyncio.timeout(WAIT_S):
        server = place.server("tasks")
        await server.connect()
        assert said(await server.call_tool("long", {"end": "completed"})) == "done after 2 polls"
        assert said(await server.call_tool("echo", {"text": "no task"})) == "no task"
        await server.close()
        later = place.server("tasks")  # its list is known from the disk, before it is started
        assert said(await later.call_tool("long", {"end": "completed"})) == "done after 2 polls"
        await later.close()


@pytest.mark.parametrize(
    ("end", "why"), [("failed", "failed the task: that is it"), ("cancelled", "cancelled the task: that is it")]
)
async def test_a_task_that_fails_is_an_error_with_the_reason_of_the_server(place, end, why):
    async with asyncio.timeout(WAIT_S):
        server = place.server("tasks")
        await server.connect()
        with pytest.raises(McpServerError) as caught:
            await server.call_tool("long", {"end": end})
        assert caught.value.what == why
        await server.close()


async def cancelled_tasks(server) -> list[str]:
    while not (found := json.loads(said(await server.call_tool("cancelled", {})))):
        pass
    return found


async def test_a_cancelled_call_and_one_that_takes_too_long_cancel_their_task(place):
    place.limits = ServerTimeouts(start_s=WAIT_S, call_s=0.1)
    async with asyncio.timeout(WAIT_S):
        server = place.server("tasks")
        await server.connect()
        with pytest.raises(McpServerError) as caught:
            await server.call_tool("long", {"end": "never"})
        assert caught.value.what == "did not end its task in 0.6 s"
        assert await cancelled_tasks(server) == ["task-0"]
        call = asyncio.create_task(server.call_tool("long", {"end": "never"}))
        await asyncio.sleep(0)
        while len(await cancelled_tasks(server)) < 2:
            call.cancel()
        assert "task-1" in await cancelled_tasks(server)
        await server.close()


@pytest.mark.parametrize(
    ("state", "failing"),
    [("working", "tasks/get"), ("input_required", "tasks/result"), (["working"], "tasks/result")],
)
async def test_a_call_that_fails_cancels_its_task_at_the_server(place, state, failing):
    async with asyncio.timeout(WAIT_S):
        with serving(tasks=failing, state=state) as http:
            server = McpServer(place.config("web", url=http.url), place.around())
            await server.connect()
            with pytest.raises(McpServerError, match="HTTP 500"):
                await server.call_tool("echo", {"text": "x"})
            await server.close()
            assert "tasks/cancel" in http.told and http.deleted == ["session-1"]


async def test_a_call_that_ends_with_its_session_cancels_its_task_before_the_connection_is_closed(place):
    async with asyncio.timeout(WAIT_S):
        with serving(tasks="") as http:
            server = McpServer(place.config("web", url=http.url), place.around())
            await server.connect()
            call = asyncio.create_task(server.call_tool("echo", {"text": "x"}))
            await asyncio.to_thread(http.polled.wait, WAIT_S)
            call.cancel()
            await asyncio.wait({call})
            await server.close()
            assert http.told[-1] == "tasks/cancel" and http.deleted == ["session-1"]


async def test_a_server_that_does_not_answer_a_cancellation_delays_the_end_for_a_bounded_time(place, monkeypatch):
    monkeypatch.setattr(client, "CANCEL_S", 0.05)
    async with asyncio.timeout(WAIT_S):
        with serving(tasks="tasks/result", state="input_required", silent="tasks/cancel") as http:
            server = McpServer(place.config("web", url=http.url), place.around())
            await server.connect()
            with pytest.raises(McpServerError):
                await server.call_tool("echo", {"text": "x"})
            await server.close()
            assert "tasks/cancel" in http.told


async def test_an_interval_that_is_no_number_is_not_used():
    for said in (float("nan"), "1", None, True, float("inf"), 10**400):
        assert client.MIN_POLL_S <= client._interval_s(said) <= client.MAX_POLL_S


async def test_a_restarted_server_is_asked_again_for_changes_of_the_resources_that_were_read(place):
    async with asyncio.timeout(WAIT_S):
        server = place.server("resources")
        await server.read_resource("x://a")
        with pytest.raises(McpServerError):
            await server.call_tool("die", {})
        await server.call_tool("change", {"uri": "x://a"})
        while not server.resource_changes("x://a"):
            await server.call_tool("change", {"uri": "x://a"})
        await server.close()


async def test_a_server_that_does_not_answer_about_its_log_is_ready_all_the_same(place):
    async with asyncio.timeout(WAIT_S / 2):
        server = place.server("mute")
        assert said(await server.call_tool("echo", {"text": "here"})) == "here"
        await server.close()


def test_the_log_of_a_server_is_bounded_over_all_processes_and_errors_are_shown_once(tmp_path):
    file = tmp_path / "log"
    first = ServerLog(file)
    for number in range(MAX_LOG_BYTES // 1_000):
        first.add({"level": "info", "data": f"{number} {'x' * 1_500}"}, str)
    size = file.stat().st_size
    assert MAX_LOG_BYTES - 2_000 < size <= MAX_LOG_BYTES
    second = ServerLog(file)
    shown = [second.add({"level": "error", "data": f"e{number // 2} {'x' * 1_500}"}, str) for number in range(50)]
    assert file.stat().st_size == size
    assert [text[:3] for text in shown if text] == [f"e{number} " for number in range(MAX_SHOWN_ERRORS)]
