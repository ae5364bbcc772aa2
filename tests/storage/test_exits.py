"""The end of a process is noticed by whoever follows it, however it ended."""

import asyncio
import os
import subprocess
import sys

import pytest

from teamwright.storage import exits
from teamwright.storage.exits import on_exit

WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture(params=["told", "looked for"])
def way(request, monkeypatch):
    """As the system tells it, and as it is where the system cannot."""
    if request.param == "looked for":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
        monkeypatch.setattr(exits, "LOOK_EVERY_S", 0.01)


@pytest.mark.promise("P3")
async def test_a_process_that_is_killed_is_noticed_once(way):
    gone = []
    some = asyncio.Event()
    process = await asyncio.create_subprocess_exec(*WAITS, stdin=subprocess.PIPE)
    on_exit(process.pid, lambda: (gone.append(1), some.set()))
    process.kill()
    async with asyncio.timeout(20):
        await process.wait()
        await some.wait()
    assert gone == [1]


async def test_a_process_that_is_gone_already_is_noticed_too(way):
    done = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await done.wait()
    some = asyncio.Event()
    on_exit(done.pid, some.set)
    async with asyncio.timeout(20):
        await some.wait()


async def test_who_stopped_following_hears_nothing(way):
    process = await asyncio.create_subprocess_exec(*WAITS, stdin=subprocess.PIPE)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    heard = asyncio.Event()
    other = asyncio.Event()
    stop = on_exit(process.pid, heard.set)
    stop()
    stop()
    assert not before or len(os.listdir("/proc/self/fd")) == before
    on_exit(process.pid, other.set)
    process.kill()
    async with asyncio.timeout(20):
        await process.wait()
        await other.wait()
    assert not heard.is_set()
