"""Doorbells: a ring is heard, by the living only, and costs nothing when nobody is there."""

import asyncio
import os

import pytest

from teamwright.protocol.errors import StorageError
from teamwright.storage import bell as module
from teamwright.storage.bell import Bell, ring


@pytest.fixture(params=["short", "long", "long without descriptors"])
def path(request, tmp_path, monkeypatch):
    if request.param == "long without descriptors":
        monkeypatch.setattr(module, "DESCRIPTORS", tmp_path / "none")
    deep = "d" * 120 if request.param.startswith("long") else "d"
    return tmp_path / deep / "bells" / "alice"


async def test_a_ring_wakes_the_owner_and_then_it_waits_again(path):
    bell = Bell.bind(path)
    waiting = asyncio.create_task(bell.wait(10))
    await asyncio.sleep(0)
    assert ring(path)
    assert await waiting
    assert not await bell.wait(0)
    bell.close()


async def test_a_ring_before_the_wait_counts(path):
    bell = Bell.bind(path)
    assert ring(path)
    assert await bell.wait(5)
    bell.close()


async def test_rings_beyond_the_queue_are_rings_too(path):
    bell = Bell.bind(path)
    assert all(ring(path) for _ in range(2_000))
    assert await bell.wait(5)
    bell.drain()
    assert not await bell.wait(0)
    bell.close()


async def test_nobody_hears_a_bell_that_was_never_hung_or_is_closed(path):
    assert not ring(path)
    bell = Bell.bind(path)
    bell.close()
    bell.close()
    assert not ring(path)
    assert os.listdir(path.parent) == []


async def test_a_dead_owners_bell_is_silent_and_can_be_hung_anew(tmp_path, start):
    path = tmp_path / "bell"
    owner = start("hang_bell", path)
    assert owner.stdout.readline() == "hung\n"
    owner.kill()
    owner.wait(10)
    assert path.exists()
    assert not ring(path)
    bell = Bell.bind(path)
    assert ring(path)
    assert await bell.wait(5)
    bell.close()


def test_a_ring_reaches_another_process(tmp_path, start):
    owner = start("hang_bell", tmp_path / "bell")
    assert owner.stdout.readline() == "hung\n"
    assert ring(tmp_path / "bell")
    assert owner.stdout.readline() == "rung\n"


@pytest.mark.promise("F66")
async def test_a_bell_is_private(path):
    bell = Bell.bind(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    bell.close()


async def test_the_old_owner_does_not_take_the_new_ones_bell_down(tmp_path):
    path = tmp_path / "bell"
    old = Bell.bind(path)
    new = Bell.bind(path)
    old.close()
    assert ring(path)
    assert await new.wait(5)
    new.close()


def test_a_place_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        Bell.bind(tmp_path / "file" / "bell")
    assert not ring(tmp_path / "file" / "bell")
