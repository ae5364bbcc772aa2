"""A wire between two processes: order, answers, failures, and an end that both notice."""

import asyncio
import contextlib
import os
import signal
import stat
import sys

import pytest

from teamwright.processes.ipc import IpcConnection, IpcServer
from teamwright.protocol.errors import TaskRefused, UnknownMember
from teamwright.storage import doorbell
from tests.support.waits import WAIT_S


class Ear:
    """Keeps what it hears, and answers by a table."""

    def __init__(self, **acts):
        self.heard, self.acts, self.some = [], acts, asyncio.Event()

    def handle_note(self, name, said):
        self.heard.append((name, dict(said)))
        self.some.set()

    async def handle_call(self, name, said):
        self.heard.append((name, dict(said)))
        self.some.set()
        return await self.acts[name](said)

    async def until(self, count):
        async with asyncio.timeout(WAIT_S):
            while len(self.heard) < count:
                self.some.clear()
                await self.some.wait()


@pytest.fixture(params=["short", "long", "long without descriptors"])
def path(request, tmp_path, monkeypatch):
    if request.param == "long without descriptors":
        monkeypatch.setattr(doorbell, "DESCRIPTORS", tmp_path / "none")
    return tmp_path / ("d" * 120 if request.param.startswith("long") else "d") / "wire"


@contextlib.asynccontextmanager
async def both(path, here, there):
    """The two ends of a wire, each with its ear."""
    came = asyncio.get_running_loop().create_future()

    async def on_call(wire):
        came.set_result(wire)
        await wire.read_until_closed(there)

    board = await IpcServer.open(path, on_call)
    mine = await IpcConnection.connect(path)
    listening = asyncio.create_task(mine.read_until_closed(here))
    try:
        yield mine, await came
    finally:
        mine.close()
        await listening
        await board.close()


async def echo(said):
    return {"said": said}


async def test_notes_and_calls_arrive_in_the_order_in_which_they_were_sent(path):
    there = Ear(echo=echo)
    async with both(path, Ear(), there) as (mine, _):
        for number in range(50):
            mine.send_note("n", number=number)
        assert await mine.call("echo", text="ü\n\u2028") == {"said": {"text": "ü\n\u2028"}}
        assert [said.get("number") for _, said in there.heard[:50]] == list(range(50))
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    assert not path.exists(), "the address goes with its owner"


async def test_both_ends_may_call_each_other_at_once(path):
    here, there = Ear(echo=echo), Ear(echo=echo)
    async with both(path, here, there) as (mine, other):
        got = await asyncio.gather(*(end.call("echo", n=n) for n in range(20) for end in (mine, other)))
    assert [one["said"]["n"] for one in got] == [n for n in range(20) for _ in range(2)]


@pytest.mark.parametrize(
    "problem", [UnknownMember("unknown-member", "no bob", looked_at=[("a", "b")], do=["x"], note="n")]
)
async def test_an_error_of_ours_is_raised_where_it_was_asked_for(path, problem):
    async def fails(_said):
        raise problem

    async def refuses(_said):
        raise TaskRefused("blocked", "waits for #1")

    async def breaks(_said):
        raise KeyError("k")

    async with both(path, Ear(), Ear(fails=fails, refuses=refuses, breaks=breaks)) as (mine, _):
        with pytest.raises(UnknownMember) as caught:
            await mine.call("fails")
        assert caught.value.render() == problem.render()
        with pytest.raises(TaskRefused) as refused:
            await mine.call("refuses")
        assert refused.value.code == "blocked"
        with pytest.raises(Exception, match="KeyError"):
            await mine.call("breaks")


async def test_a_call_that_is_cancelled_is_cancelled_at_the_other_end_too(path):
    cancelled = asyncio.Event()

    async def waits(_said):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    there = Ear(waits=waits)
    async with both(path, Ear(), there) as (mine, _):
        task = asyncio.create_task(mine.call("waits"))
        await there.until(1)
        task.cancel()
        async with asyncio.timeout(WAIT_S):
            await cancelled.wait()


async def test_whoever_waits_when_the_wire_ends_is_told(path):
    async def never(_said):
        await asyncio.Event().wait()

    there = Ear(never=never)
    async with both(path, Ear(), there) as (mine, other):
        task = asyncio.create_task(mine.call("never"))
        await there.until(1)
        other.close()
        with pytest.raises(ConnectionError):
            await task
        with pytest.raises(ConnectionError):
            await mine.call("never")
        mine.send_note("into the void")


async def end_of(reader):
    async with asyncio.timeout(WAIT_S):
        return await reader.read()


@pytest.mark.parametrize("path", ["short"], indirect=True)
@pytest.mark.parametrize("answers", [True, False], ids=["until the other end has heard it", "or does not hear"])
async def test_whoever_leaves_listens_on(path, answers):
    """Else what is sent to it at that moment would cost its sender the last words."""
    came = asyncio.get_running_loop().create_future()

    async def on_call(reader, writer):
        came.set_result((reader, writer))

    path.parent.mkdir()
    with doorbell.short_address(path) as short:
        server = await asyncio.start_unix_server(on_call, short)
    mine, here = await IpcConnection.connect(path), Ear()
    listening = asyncio.create_task(mine.read_until_closed(here))
    reader, writer = await came
    mine.send_note("bye")
    leaving = asyncio.create_task(mine.close_when_sent(60 if answers else 0.01))
    assert await end_of(reader) == b'{"note":"bye"}\n'
    if answers:
        writer.write(b'{"note":"look"}\n')
        await writer.drain()
        await here.until(1)
        assert not leaving.done()
        mine.send_note("into the void")
        writer.close()
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(leaving, listening)
    assert await end_of(reader) == b""
    writer.close()
    server.close()


CHILD = """
import asyncio, pathlib, sys
from teamwright.processes.ipc import IpcConnection
async def main():
    wire = await IpcConnection.connect(pathlib.Path(sys.argv[1]))
    wire.send_note("hello")
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_death_by_sigkill_ends_the_wire_at_once(path):
    there, ended = Ear(), asyncio.Event()

    async def on_call(wire):
        await wire.read_until_closed(there)
        ended.set()

    board = await IpcServer.open(path, on_call)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, str(path))
    try:
        await there.until(1)
        child.send_signal(signal.SIGKILL)
        async with asyncio.timeout(WAIT_S):
            await ended.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        await board.close()


async def test_what_is_no_wire_of_ours_ends_it(path):
    there, ended = Ear(), asyncio.Event()

    async def on_call(wire):
        await wire.read_until_closed(there)
        ended.set()

    board = await IpcServer.open(path, on_call)
    with doorbell.short_address(path) as short:
        _, writer = await asyncio.open_unix_connection(short)
    writer.write(b"GET / HTTP/1.1\n")
    async with asyncio.timeout(WAIT_S):
        await ended.wait()
    writer.close()
    assert there.heard == []
    await board.close()


async def test_an_address_that_a_dead_process_left_is_taken_over(path):
    boards = []
    for _ in range(2):

        async def on_call(wire):
            await wire.read_until_closed(Ear(echo=echo))

        boards.append(await IpcServer.open(path, on_call))
    mine = await IpcConnection.connect(path)
    listening = asyncio.create_task(mine.read_until_closed(Ear()))
    assert await mine.call("echo", a=1) == {"said": {"a": 1}}
    await boards[0].close()
    assert path.exists(), "only its owner takes an address away"
    mine.close()
    await listening
    await boards[1].close()
