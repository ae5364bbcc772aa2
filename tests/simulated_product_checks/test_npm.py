"""The real npm proper-lockfile and our lock on one file: never two inside, and nobody's death bars the other."""

import contextlib
import json
import os
import random
import re
import signal
from collections import Counter
from time import monotonic
from types import SimpleNamespace

import pytest

from teamwright.mail.inbox import Inbox
from teamwright.protocol.errors import LockLost, LockTimeout
from teamwright.storage import locks
from teamwright.storage.locks import FileLock
from tests.support.waits import WAIT_S

STALE_MS = 2000
"""The least that proper-lockfile accepts."""


@pytest.fixture
def target(tmp_path):
    made = tmp_path / "counter"
    made.write_text("0")
    return made


@pytest.fixture
def guard(tmp_path):
    return tmp_path / "guards" / "counter"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def lock_directory(target):
    return target.with_name(target.name + ".lock")


def never_two_inside(log):
    """No hold began while another was going on; one that never ended was killed, and does not count."""
    steps = [line.split() for line in log.read_text().splitlines()]
    ended = {id for step, id in steps if step == "leave"}
    inside = None
    for step, id in steps:
        if id in ended:
            assert inside == (None if step == "enter" else id), f"{step} {id} while {inside} was inside"
            inside = id if step == "enter" else None
    return len(ended)


def recorded(guard):
    """Inode and mtime of the last lock directory that one of ours made."""
    found = re.match(rb"made (\d+) (\d+) ", guard.read_bytes() if guard.exists() else b"")
    return found and (int(found[1]), int(found[2]))


def let_time_pass(target, seconds):
    """What a dead owner left looks older by that much."""
    with contextlib.suppress(FileNotFoundError):
        then = lock_directory(target).stat().st_mtime - seconds
        os.utime(lock_directory(target), (then, then))


def lines(process, count):
    return [process.stdout.readline().strip() for _ in range(count)]


def holding(process):
    """Wait until it is inside; the time of its first lock of all was told before."""
    assert lines(process, 2) == ["fresh", "inside"]
    return process


def told(process, line):
    """Give it a line; returns its answer."""
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return next(answer for answer in iter(process.stdout.readline, "") if answer != "fresh\n").strip()


def end(process):
    """Kill it; returns what it still had said."""
    process.kill()
    return process.communicate(timeout=WAIT_S)[0].split()


@pytest.mark.slow
@pytest.mark.promise("F03", "F29", "C3")
def test_ours_and_npms_never_are_inside_together_and_lose_no_count(target, guard, log, ours, npm):
    processes = [npm("count", target, log, 120, 10_000) for _ in range(2)]
    processes += [ours("count", target, guard, log, 120, 30) for _ in range(2)]
    assert all("failed" not in p.communicate(timeout=WAIT_S)[0] for p in processes)
    assert [p.returncode for p in processes] == [0] * 4
    assert never_two_inside(log) == 480
    assert target.read_text() == "480"
    assert not lock_directory(target).exists()


@pytest.mark.slow
@pytest.mark.promise("F03", "F29", "P5")
def test_with_either_side_killed_at_any_moment_the_other_goes_on_and_never_two_are_inside(
    target, guard, log, ours, npm
):
    """A dead one of ours bars ours for no time (they wait 1.5 s at most), and npm's for its stale time."""
    dice = random.Random(11)
    for life in range(6):
        theirs = npm("count", target, log, 0, STALE_MS)
        mine = ours("count", target, guard, log, 0, 1.5)
        lines(theirs, dice.randint(1, 12))
        lines(mine, dice.randint(1, 12))
        if life % 2:
            end(mine)
            mark = locks.directory_mark(str(lock_directory(target)))
            if mark == recorded(guard):
                let_time_pass(target, STALE_MS / 1000 + 1)
            assert "" not in lines(theirs, 4)
            end(theirs)
        else:
            end(theirs)
            end(mine)
        if locks.directory_mark(str(lock_directory(target))) != recorded(guard):
            let_time_pass(target, 11)
        survivor = ours("count", target, guard, log, 4, 1.5)
        assert lines(survivor, 4) == ["0", "1", "2", "3"]
    assert never_two_inside(log) > 50


@pytest.mark.promise("F29")
async def test_npms_held_lock_is_waited_for_and_then_told_with_path_and_age(target, guard, npm):
    holder = holding(npm("hold", target, 10_000))
    with pytest.raises(LockTimeout) as problem:
        async with FileLock(target, guard, wait_s=0.1).hold():
            pytest.fail("two are inside")
    assert str(lock_directory(target)) in problem.value.render()
    assert float(dict(problem.value.looked_at)["age"].split()[0]) < 10
    assert told(holder, "release") == "released"
    async with FileLock(target, guard, wait_s=0.5).hold() as held:
        held.check()
        assert not held.recovered


@pytest.mark.promise("F29")
@pytest.mark.slow
async def test_a_lock_that_npm_keeps_fresh_is_never_stale_however_long_it_is_held(target, guard, npm, monkeypatch):
    holder = holding(npm("hold", target, 10_000))
    first = lock_directory(target).stat().st_mtime
    assert lines(holder, 1) == ["fresh"]
    assert lock_directory(target).stat().st_mtime > first + 0.5
    later = first + locks.STALE_S + 0.5
    monkeypatch.setattr(
        locks, "time", SimpleNamespace(time=lambda: later, time_ns=lambda: int(later * 1e9), monotonic=monotonic)
    )
    with pytest.raises(LockTimeout):
        async with FileLock(target, guard, wait_s=0.05).hold():
            pytest.fail("two are inside")
    later = lock_directory(target).stat().st_mtime + locks.STALE_S + 0.5
    async with FileLock(target, guard, wait_s=0.05).hold() as held:
        assert held.recovered


@pytest.mark.promise("F29")
async def test_what_npm_holds_past_its_time_is_taken_over_and_its_late_release_makes_us_commit_nothing(
    target, guard, npm
):
    """It was stopped, counted as dead, and comes back: it then removes whatever stands there, which was ours."""
    holder = holding(npm("hold", target, 10_000))
    holder.send_signal(signal.SIGSTOP)
    let_time_pass(target, 11)
    async with FileLock(target, guard, wait_s=1).hold() as held:
        held.check()
        assert held.recovered
        holder.send_signal(signal.SIGCONT)
        answer = told(holder, "release")
        if answer.startswith("compromised"):  # it looked at its lock first: then it keeps its hands off
            held.check()
        else:
            assert answer == "released"
            with pytest.raises(LockLost):
                held.check()
    assert not lock_directory(target).exists()
    async with FileLock(target, guard, wait_s=1).hold() as held:
        held.check()


@pytest.mark.promise("F29")
@pytest.mark.slow
async def test_when_npm_takes_our_lock_over_we_commit_nothing_and_release_nothing_of_theirs(target, guard, npm):
    """Ours is held far too long by a program that was stopped; npm's stale time here is 2 s."""
    async with FileLock(target, guard).hold() as held:
        holder = holding(npm("hold", target, STALE_MS))
        with pytest.raises(LockLost):
            held.check()
    assert lock_directory(target).is_dir()
    assert told(holder, "release") == "released"
    assert not lock_directory(target).exists()


@pytest.mark.slow
@pytest.mark.promise("F03", "F05", "C3")
@pytest.mark.parametrize("habit", ["truncate", "rename"])
def test_senders_of_ours_and_npms_on_one_inbox_lose_nothing(tmp_path, ours, npm, habit):
    inbox = tmp_path / "bob.json"
    inbox.write_text("[]")
    processes = [npm("append", inbox, f"npm{n}", 80, habit) for n in range(2)]
    processes += [ours("send", tmp_path, f"ours{n}", 80) for n in range(2)]
    assert all("failed" not in p.communicate(timeout=WAIT_S)[0] for p in processes)
    assert [p.returncode for p in processes] == [0] * 4
    entries = json.loads(inbox.read_bytes())
    assert Counter((e["from"], e["text"]) for e in entries) == Counter(
        (f"{who}{n}", str(i)) for who in ("npm", "ours") for n in range(2) for i in range(80)
    )
    for who in ("npm0", "npm1", "ours0", "ours1"):
        assert [e["text"] for e in entries if e["from"] == who] == [str(i) for i in range(80)]


@pytest.mark.slow
@pytest.mark.promise("P1", "F03", "F04", "F29", "C3")
async def test_with_senders_of_both_sides_killed_at_any_moment_nothing_that_was_sent_is_lost(tmp_path, ours, npm):
    path = tmp_path / "bob.json"
    path.write_text("[]")
    dice = random.Random(5)
    guard = tmp_path / "guards" / "bob.json"
    for life in range(6):
        theirs = npm("append", path, f"npm{life}", "150", "rename")
        mine = ours("send", tmp_path, f"ours{life}", "150")
        said = {f"npm{life}": lines(theirs, dice.randint(1, 30)), f"ours{life}": lines(mine, dice.randint(1, 30))}
        first, second = (mine, theirs) if life % 2 else (theirs, mine)
        for process in (first, second):
            said[f"npm{life}" if process is theirs else f"ours{life}"] += end(process)
        if locks.directory_mark(str(lock_directory(path))) != recorded(guard):
            let_time_pass(path, 11)
        inbox = Inbox(path, guard, tmp_path / "archive.jsonl")
        entries = await inbox.unread()
        for who, texts in said.items():
            arrived = [entry.text for entry in entries if entry.sender == who]
            assert arrived == [str(n) for n in range(len(arrived))]
            assert len(arrived) >= len(texts)
        await inbox.mark_delivered([entry.msg_id for entry in entries])
    assert not list(tmp_path.glob("*.bad.*"))
