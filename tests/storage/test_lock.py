"""The lock: one inside at a time, among ours and with strangers, and nobody's death holds up the rest."""

import asyncio
import gc
import os
import time
from types import SimpleNamespace

import pytest

from teamwright.protocol.errors import LockLost, LockTimeout
from teamwright.storage import locks
from teamwright.storage.locks import FileLock, lock_for, remove_dead_locks, remove_unused_guard
from tests.support.waits import WAIT_S


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "teams" / "demo" / "inbox.json"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def guard(tmp_path):
    return tmp_path / "guards" / "demo" / "inbox.json"


def directory(target):
    return target.with_name(target.name + ".lock")


def strangers_lock(target, age_s):
    made = directory(target)
    made.mkdir()
    moment = time.time() - age_s
    os.utime(made, (moment, moment))
    return made


@pytest.mark.promise("F03")
def test_no_count_is_lost_between_four_processes(target, guard, start):
    target.write_text("0")
    processes = [start("count", target, guard, 40) for _ in range(4)]
    assert [p.wait(WAIT_S) for p in processes] == [0, 0, 0, 0]
    assert target.read_text() == "160"


@pytest.mark.promise("F03", "C3")
def test_no_count_is_lost_between_two_of_ours_and_two_strangers(target, guard, start):
    target.write_text("0")
    ours = [start("count", target, guard, 40) for _ in range(2)]
    strangers = [start("count_as_stranger", target, 40) for _ in range(2)]
    assert [p.wait(WAIT_S) for p in ours + strangers] == [0, 0, 0, 0]
    assert target.read_text() == "160"


async def test_inside_stands_an_empty_directory_that_is_gone_afterwards(target, guard):
    async with FileLock(target, guard).hold() as held:
        assert os.listdir(directory(target)) == []
        assert not held.recovered
        held.check()
    assert os.listdir(target.parent) == []
    assert guard.stat().st_mode & 0o777 == 0o600


async def test_tasks_of_one_loop_go_in_one_after_another(target, guard):
    inside = 0

    async def work():
        nonlocal inside
        async with lock_for(target, guard).hold():
            assert inside == 0
            inside += 1
            inside -= 1

    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*(work() for _ in range(50)))


@pytest.mark.promise("F29")
async def test_a_killed_owners_lock_is_recovered_at_once_and_the_next_is_told(target, guard, start):
    owner = start("die_inside", target, guard)
    assert owner.stdout.readline() == "inside\n"
    owner.kill()
    owner.wait(WAIT_S)
    assert directory(target).is_dir()
    async with FileLock(target, guard, wait_s=0.5).hold() as held:
        assert held.recovered
    assert os.listdir(target.parent) == []


@pytest.mark.finding("N5")
@pytest.mark.promise("F29")
def test_a_process_that_meets_the_lock_of_a_killed_owner_removes_it_and_leaves_all_others(target, guard, start):
    """Another product waits for that lock, or loses its mail, until it is 10 s old."""
    owner = start("die_inside", target, guard)
    assert owner.stdout.readline() == "inside\n"
    assert remove_dead_locks(target.parent, lambda _: guard) == []
    assert directory(target).is_dir(), "its owner lives"
    owner.kill()
    owner.wait(WAIT_S)
    assert remove_dead_locks(target.parent, lambda _: guard) == [target]
    assert os.listdir(target.parent) == []
    strangers_lock(target, age_s=9)
    assert remove_dead_locks(target.parent, lambda _: guard) == []
    assert remove_dead_locks(target.parent, lambda _: guard.with_name("never made")) == []
    assert directory(target).is_dir(), "it is another product's and young"


@pytest.mark.promise("F29")
@pytest.mark.slow
async def test_an_owner_killed_before_it_made_its_record_is_recovered_after_a_second(target, guard, start):
    owner = start("die_before_the_record", target, guard)
    assert owner.wait(WAIT_S) == -9
    assert directory(target).is_dir()
    async with FileLock(target, guard, wait_s=4).hold() as held:
        assert held.recovered


@pytest.mark.promise("F29")
async def test_a_live_owner_in_another_process_is_waited_for_and_named_as_ours(target, guard, start):
    owner = start("die_inside", target, guard)
    assert owner.stdout.readline() == "inside\n"
    with pytest.raises(LockTimeout) as told:
        async with FileLock(target, guard, wait_s=0.1).hold():
            pytest.fail("two are inside")
    assert str(directory(target)) in told.value.render()


@pytest.mark.promise("F29")
async def test_a_strangers_stale_lock_is_stolen(target, guard):
    strangers_lock(target, age_s=11)
    async with FileLock(target, guard, wait_s=0.1).hold() as held:
        held.check()
    assert os.listdir(target.parent) == []


@pytest.mark.promise("F29")
@pytest.mark.parametrize("age_s", [0, 4, 9])
async def test_a_strangers_fresh_lock_is_waited_for_then_a_loud_error_names_path_and_age(target, guard, age_s):
    made = strangers_lock(target, age_s)
    with pytest.raises(LockTimeout) as told:
        async with FileLock(target, guard, wait_s=0.05).hold():
            pytest.fail("two are inside")
    assert str(made) in told.value.render()
    assert f"{age_s}." in dict(told.value.looked_at)["age"]
    assert made.is_dir()


async def test_a_strangers_lock_that_goes_while_we_wait_lets_us_in(target, guard):
    made = strangers_lock(target, age_s=0)
    entered = asyncio.Event()

    async def wait():
        async with FileLock(target, guard).hold():
            entered.set()

    waiting = asyncio.create_task(wait())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not entered.is_set()
    made.rmdir()
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert entered.is_set()


async def test_a_stale_lock_with_something_inside_is_moved_aside_and_keeps_it(target, guard):
    made = strangers_lock(target, age_s=0)
    (made / "note").write_text("mine")
    os.utime(made, (time.time() - 20, time.time() - 20))
    async with FileLock(target, guard, wait_s=0.1).hold():
        pass
    (aside,) = target.parent.iterdir()
    assert (aside / "note").read_text() == "mine"


async def test_a_hold_whose_directory_was_taken_over_commits_nothing_and_leaves_the_strangers(target, guard):
    async with FileLock(target, guard).hold() as held:
        directory(target).rmdir()
        made = strangers_lock(target, age_s=0)
        with pytest.raises(LockLost):
            held.check()
    assert made.is_dir()


async def test_a_hold_whose_directory_is_gone_commits_nothing(target, guard):
    async with FileLock(target, guard).hold() as held:
        directory(target).rmdir()
        with pytest.raises(LockLost):
            held.check()


async def test_a_hold_that_is_too_old_commits_nothing(target, guard, monkeypatch):
    async with FileLock(target, guard).hold() as held:
        monkeypatch.setattr(locks, "MAX_HOLD_S", 0.0)
        with pytest.raises(LockLost):
            held.check()


async def test_a_waiter_that_is_cancelled_leaves_the_way_free(target, guard):
    made = strangers_lock(target, age_s=0)
    lock = FileLock(target, guard)

    async def wait():
        async with lock.hold():
            pytest.fail("two are inside")

    waiting = asyncio.create_task(wait())
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    made.rmdir()
    async with FileLock(target, guard, wait_s=0.1).hold() as held:
        held.check()


async def test_an_error_inside_lets_the_lock_go(target, guard):
    with pytest.raises(ZeroDivisionError):
        async with FileLock(target, guard).hold():
            _ = 1 / 0
    async with FileLock(target, guard, wait_s=0.1).hold():
        pass


@pytest.mark.slow
async def test_a_path_has_one_lock_in_a_loop_and_one_in_use_is_never_dropped(tmp_path):
    used = lock_for(tmp_path / "used", tmp_path / "g" / "used")
    for n in range(1000):
        lock_for(tmp_path / str(n), tmp_path / "g" / str(n))
    gc.collect()
    assert lock_for(tmp_path / "used", tmp_path / "g" / "used") is used


def test_two_loops_have_two_locks_that_exclude_each_other(target, guard):
    async def get():
        return lock_for(target, guard)

    first, second = asyncio.run(get()), asyncio.run(get())
    assert first is not second


@pytest.mark.promise("F29")
async def test_a_stranger_that_removes_our_new_directory_for_a_stale_one_costs_a_second_try_and_no_error(
    target, guard, monkeypatch
):
    """It judged the directory that stood there before, and was slow: the race that its way of locking has."""
    utime, times = os.utime, []

    def removed_first(path, **moment):
        times.append(path)
        if len(times) == 1:
            os.rmdir(path)
        utime(path, **moment)

    monkeypatch.setattr(locks.os, "utime", removed_first)
    async with FileLock(target, guard, wait_s=2).hold() as held:
        held.check()
    assert len(times) == 2
    assert os.listdir(target.parent) == []


@pytest.mark.promise("F29")
@pytest.mark.parametrize("program", ["die_inside", "die_before_the_record"])
@pytest.mark.slow_after(1)
async def test_a_clock_that_was_set_back_does_not_make_a_dead_owner_live(target, guard, start, monkeypatch, program):
    owner = start(program, target, guard)
    if program == "die_inside":
        assert owner.stdout.readline() == "inside\n"
        owner.kill()
    owner.wait(WAIT_S)
    assert directory(target).is_dir()
    an_hour_ago = time.time() - 3600
    clock = {"time": lambda: an_hour_ago, "time_ns": lambda: int(an_hour_ago * 1e9), "monotonic": time.monotonic}
    monkeypatch.setattr(locks, "time", SimpleNamespace(**clock))
    async with FileLock(target, guard, wait_s=0.5).hold() as held:
        assert held.recovered
        held.check()
    assert os.listdir(target.parent) == []


@pytest.mark.finding("T25")
async def test_who_waits_with_a_guard_that_is_removed_takes_the_one_that_is_there_then(target, guard):
    """Two locks, as two processes have them: else the waiter and the next would be inside together."""
    order = []

    async def hold(name, lock):
        async with lock.hold():
            order.append(f"{name} in")
            await asyncio.sleep(0.02)
            order.append(f"{name} out")

    async with FileLock(target, guard).hold() as held:
        waiters = [asyncio.create_task(hold(name, FileLock(target, guard))) for name in "ab"]
        await asyncio.sleep(0)
        held.remove_guard()
    await asyncio.gather(*waiters, hold("c", FileLock(target, guard)))
    assert [one[2:] for one in order] == ["in", "out"] * 3
    assert guard.exists()


@pytest.mark.finding("T25")
async def test_a_guard_that_nobody_holds_is_removed_and_one_in_use_is_not(target, guard):
    async with FileLock(target, guard).hold():
        remove_unused_guard(guard)
        assert guard.exists()
    remove_unused_guard(guard)
    assert not guard.exists()
