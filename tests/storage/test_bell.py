"""Doorbells: a ring is heard, by the living only, and costs nothing when nobody is there."""

import asyncio
import os
import subprocess
import sys
from functools import partial

import pytest

from teamwright.protocol.errors import StorageError
from teamwright.storage import doorbell as module
from teamwright.storage.doorbell import Doorbell, listen, remove_unused_in, ring
from tests.support.waits import WAIT_S


@pytest.fixture(params=["short", "long", "long without descriptors"])
def path(request, tmp_path, monkeypatch):
    if request.param == "long without descriptors":
        monkeypatch.setattr(module, "DESCRIPTORS", tmp_path / "none")
    deep = "d" * 120 if request.param.startswith("long") else "d"
    return tmp_path / deep / "bells" / "alice"


async def test_a_ring_wakes_the_owner_and_then_it_waits_again(path):
    bell = Doorbell.bind(path)
    waiting = asyncio.create_task(bell.wait(WAIT_S))
    await asyncio.sleep(0)
    assert ring(path)
    assert await waiting
    assert not await bell.wait(0)
    bell.close()


async def test_a_ring_before_the_wait_counts(path):
    bell = Doorbell.bind(path)
    assert ring(path)
    assert await bell.wait(WAIT_S)
    bell.close()


async def test_rings_beyond_the_queue_are_rings_too(path):
    bell = Doorbell.bind(path)
    assert all(ring(path) for _ in range(2_000))
    assert await bell.wait(WAIT_S)
    bell.clear()
    assert not await bell.wait(0)
    bell.close()


async def test_nobody_hears_a_bell_that_was_never_hung_or_is_closed(path):
    assert not ring(path)
    bell = Doorbell.bind(path)
    bell.close()
    bell.close()
    assert not ring(path)
    assert os.listdir(path.parent) == []


async def test_a_dead_owners_bell_is_silent_and_can_be_hung_anew(tmp_path, start):
    path = tmp_path / "bell"
    owner = start("hang_bell", path)
    assert owner.stdout.readline() == "hung\n"
    owner.kill()
    owner.wait(WAIT_S)
    assert path.exists()
    assert not ring(path)
    bell = Doorbell.bind(path)
    assert ring(path)
    assert await bell.wait(WAIT_S)
    bell.close()


def test_a_ring_reaches_another_process(tmp_path, start):
    owner = start("hang_bell", tmp_path / "bell")
    assert owner.stdout.readline() == "hung\n"
    assert ring(tmp_path / "bell")
    assert owner.stdout.readline() == "rung\n"


@pytest.mark.promise("F66")
async def test_a_bell_is_private(path):
    bell = Doorbell.bind(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    bell.close()


async def test_the_old_owner_does_not_take_the_new_ones_bell_down(tmp_path):
    path = tmp_path / "bell"
    old = Doorbell.bind(path)
    new = Doorbell.bind(path)
    old.close()
    assert ring(path)
    assert await new.wait(WAIT_S)
    new.close()


def test_a_place_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        Doorbell.bind(tmp_path / "file" / "bell")
    assert not ring(tmp_path / "file" / "bell")


# ── bells that call back ─────────────────────────────────────────────────────────────────────────────────────────


async def test_two_hundred_bells_call_back_each_its_own_and_no_task_waits_for_them(tmp_path):
    heard = []
    some = asyncio.Event()

    def hear(number):
        heard.append(number)
        if len(heard) == 200:
            some.set()

    before = asyncio.all_tasks()
    silence = [listen(tmp_path / "bells" / f"m{n}", partial(hear, n)) for n in range(200)]
    new = asyncio.all_tasks() - before  # another library may end a client of an earlier test now
    assert not [task for task in new if "teamwright" in task.get_coro().cr_code.co_filename]
    assert all(ring(tmp_path / "bells" / f"m{n}") for n in range(200))
    async with asyncio.timeout(WAIT_S):
        await some.wait()
    assert sorted(heard) == list(range(200))
    for take_down in silence:
        take_down()
    assert os.listdir(tmp_path / "bells") == []


async def test_a_bell_that_cannot_be_hung_is_no_error(path, monkeypatch):
    path.parent.parent.mkdir()
    path.parent.write_text("a file is in its place")
    listen(path, lambda: None)()
    assert not ring(path)


def test_bells_leave_most_descriptors_to_others(tmp_path):
    script = f"""
import asyncio, resource
from pathlib import Path
from teamwright.storage.doorbell import listen, ring
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
async def work():
    for n in range(100):
        listen(Path({str(tmp_path)!r}) / "bells" / str(n), lambda: None)
    print(sum(ring(Path({str(tmp_path)!r}) / "bells" / str(n)) for n in range(100)))
asyncio.run(work())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT_S)
    assert (done.stdout, done.returncode) == ("16\n", 0), done.stderr


def test_no_child_inherits_a_bell(tmp_path):
    script = f"""
import asyncio, os, subprocess
from pathlib import Path
from teamwright.storage.doorbell import listen
async def work():
    listen(Path({str(tmp_path)!r}) / "bell", lambda: None)
    done = subprocess.run(["ls", "-l", "/dev/fd/"], close_fds=False, capture_output=True, text=True)
    print("socket:" in done.stdout)
asyncio.run(work())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT_S)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


@pytest.mark.promise("P3")
def test_bells_of_the_dead_are_taken_down_and_those_of_the_living_stay(tmp_path):
    living = Doorbell.bind(tmp_path / "bells" / "ada")
    dead = Doorbell.bind(tmp_path / "bells" / "bob")
    dead._socket.close()  # as a kill leaves it: the socket's file stays
    (tmp_path / "bells" / ".half").write_bytes(b"")
    remove_unused_in(tmp_path / "bells")
    assert [path.name for path in (tmp_path / "bells").iterdir()] == ["ada"]
    living.close()
    remove_unused_in(tmp_path / "none")
