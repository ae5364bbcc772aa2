"""Processes with one key share what they know of its limit, and a process that dies takes nothing along."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path

import pytest

from teamwright.models import rate_limit_store
from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_limit import RateLimiter, rate_limiter_for
from teamwright.models.rate_limit_store import PAGE, FileRateLimitStore, rate_limit_file
from teamwright.models.rate_state import FORGET_S
from teamwright.storage.paths import Home
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("F60", "H10")

CHILD = Path(__file__).with_name("governor_child.py")


class Child:
    """A process that shares the page."""

    def __init__(self, name, page, *arguments):
        command = [sys.executable, str(CHILD), name, str(page), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    async def says(self):
        async with asyncio.timeout(WAIT_S):
            return (await asyncio.to_thread(self.process.stdout.readline)).strip()

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_S)


@pytest.fixture
def start():
    running = []

    def run(*arguments):
        running.append(Child(*arguments))
        return running[-1]

    yield run
    for child in running:
        child.process.kill()
        child.process.communicate()


@pytest.fixture
def page(tmp_path):
    return tmp_path / "governors" / "a"


def rate_limiter(page, most=8):
    return RateLimiter(max_running=most, backoff_s=0.001, max_backoff_s=0.005, store=FileRateLimitStore(page))


async def refuse(one, seconds=0.0):
    async with one.permit() as turn:
        one.note_throttled(turn, seconds)


@pytest.mark.slow
async def test_a_refusal_of_one_process_makes_the_other_wait_and_call_less(start, page):
    other = start("listens", page)
    assert await other.says() == "ready"
    other.tell()
    assert await other.says() == "nothing; 0 s left, limit 8"
    first = start("refused", page, 3)
    assert await first.says() == "refused"
    other.tell()
    assert await other.says() == "the rate limit; 0 s left, limit 1"
    mine = rate_limiter(page)
    assert mine.limit == 1


async def test_a_pause_outlives_the_process_that_was_refused(start, page):
    first = start("refused", page, 30)
    assert await first.says() == "refused"
    first.kill()
    mine = rate_limiter(page)
    assert mine.wait_reason == "the rate limit" and 25 < mine.paused_s < 40


async def test_while_few_may_call_processes_share_the_places_and_a_killed_one_leaves_its_own(start, page):
    mine = rate_limiter(page)
    await refuse(mine)
    assert mine.limit == 1
    holder = start("holds", page)
    assert [await holder.says(), await holder.says()] == ["ready", "in"]
    call = asyncio.create_task(enter(mine))
    done, _ = await asyncio.wait({call}, timeout=0.3)
    assert not done, "the other process has the only place"
    holder.kill()
    async with asyncio.timeout(WAIT_S):
        await call
    assert mine.running_count == 0


async def enter(one):
    async with one.permit():
        pass


@pytest.mark.slow
async def test_several_processes_never_have_more_calls_at_once_than_may(start, page, tmp_path):
    mine = rate_limiter(page)
    async with mine.permit() as one, mine.permit(), mine.permit(), mine.permit():
        mine.note_throttled(one, 0.0)
    assert mine.limit == 2
    log = tmp_path / "log"
    children = [start("calls", page, log, 30, 0.005) for _ in range(3)]
    for child in children:
        assert await child.says() == "ready"
    for child in children:
        child.tell()
    for child in children:
        assert await child.says() == "done"
    at_once = list(accumulate(1 if line == "+" else -1 for line in log.read_text().split()))
    assert len(at_once) == 180
    assert max(at_once) == 2 and at_once[-1] == 0


async def test_a_process_that_is_never_done_leaves_a_place_to_another_one(start, page, tmp_path):
    mine = rate_limiter(page)
    await refuse(mine)
    log = tmp_path / "log"
    busy = start("calls", page, log, 1000, 0.02)
    assert await busy.says() == "ready"
    busy.tell()
    other = start("holds", page)
    assert await other.says() == "ready"
    before = log.read_text().count("-")
    assert await other.says() == "in"
    assert log.read_text().count("-") < before + 50, "it was not left to chance"


@pytest.mark.slow
async def test_a_page_whose_writers_are_killed_at_any_moment_is_whole(start, page):
    for _ in range(6):
        writer = start("hammers", page)
        assert await writer.says() == "ready"
        mine = rate_limiter(page)
        await refuse(mine)
        writer.kill()
        assert rate_limit_store._decode_state(page.read_bytes()) is not None
        async with asyncio.timeout(WAIT_S):
            await enter(mine)
    assert not list(page.parent.glob("*.bad"))


async def test_a_process_that_is_stopped_in_the_middle_holds_nobody_up(start, page):
    mine = rate_limiter(page)
    holder = os.open(page, os.O_RDWR)
    rate_limit_store.fcntl.flock(holder, rate_limit_store.fcntl.LOCK_EX)
    try:
        async with asyncio.timeout(WAIT_S):
            await refuse(mine)
        assert mine.limit == 1, "what cannot be shared holds for this process"
    finally:
        os.close(holder)
    assert rate_limiter(page).limit == 8


DAMAGE = {
    "noise": b"\x00\xff" * 200,
    "a cut line": b'{"v":1,"boot":',
    "another sum": b'{"v":1} 00000000\n',
    "a pause of a hundred years": None,
}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_a_damaged_page_is_set_aside_and_throttles_nobody(page, kind):
    mine = rate_limiter(page)
    await refuse(mine, 60.0)
    raw = DAMAGE[kind]
    if raw is None:
        state = rate_limit_store.RateState(3, 3, 1.0, time.monotonic() + 3e9, time.monotonic())
        raw = rate_limit_store._encode_state(state)
    page.write_bytes(raw)
    assert mine.wait_reason == "" and mine.limit == 8
    assert page.with_name("a.bad").read_bytes() == raw[:PAGE]
    await refuse(mine)
    assert rate_limiter(page).limit == 1, "the page is in use again"


async def test_an_empty_a_removed_and_a_newer_page_throttle_nobody(page):
    mine = rate_limiter(page)
    await refuse(mine, 60.0)
    page.write_bytes(b"")
    assert mine.wait_reason == ""
    await refuse(mine, 60.0)
    page.unlink()
    assert rate_limiter(page).wait_reason == ""
    mine = rate_limiter(page)
    await refuse(mine, 60.0)
    body = json.loads(page.read_text().strip().rpartition(" ")[0])
    text = json.dumps({**body, "v": 2}, separators=(",", ":"))
    page.write_bytes(f"{text} {rate_limit_store.zlib.crc32(text.encode()):08x}".ljust(PAGE - 1).encode() + b"\n")
    assert mine.wait_reason == "" and not list(page.parent.glob("*.bad"))


async def test_no_jump_of_the_clock_moves_a_pause_and_another_boot_has_none(page, monkeypatch):
    mine = rate_limiter(page)
    await refuse(mine, 60.0)
    for jumped in (0.0, 1e10):
        monkeypatch.setattr(time, "time", lambda at=jumped: at)
        assert 50 < mine.paused_s < 80 and 50 < rate_limiter(page).paused_s < 80
    monkeypatch.setattr(rate_limit_store, "boot_id", lambda: "another")
    assert rate_limiter(page).wait_reason == ""


async def test_what_was_learned_is_forgotten_when_nobody_was_refused_for_long(page, monkeypatch):
    mine = rate_limiter(page)
    await refuse(mine)
    assert mine.limit == 1
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + FORGET_S + 1)
    assert mine.limit == 8


@pytest.mark.promise("F66")
def test_a_page_is_private_and_its_name_gives_nothing_away(tmp_path):
    directory = tmp_path / "governors"
    endpoint = Endpoint("anthropic", "https://api.example", "sk-secret-0123456789")
    home = Home(tmp_path, tmp_path)
    page = rate_limit_file(home, endpoint)
    assert page == rate_limit_file(home, endpoint)
    assert page != rate_limit_file(home, Endpoint("anthropic", "https://api.example", "sk-other-0123456789"))
    elsewhere = Home(tmp_path, tmp_path / "elsewhere")
    assert page.name != rate_limit_file(elsewhere, endpoint).name, "the name depends on a secret of the directory"
    assert rate_limiter_for("x", page) is rate_limiter_for("x", page)
    files = list(directory.iterdir())
    assert {file.name for file in files} == {"key", page.name, f"{page.name}.places"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600} and directory.stat().st_mode & 0o777 == 0o700
    assert all(b"secret" not in file.read_bytes() for file in files)


def test_where_nothing_can_be_written_the_process_has_a_governor_of_its_own(tmp_path):
    (tmp_path / "governors").write_text("a file is in its place")
    endpoint = Endpoint("anthropic", "https://api.example", "sk-secret-0123456789")
    assert rate_limit_file(Home(tmp_path, tmp_path), endpoint) is None
    assert rate_limiter_for("y", tmp_path / "governors" / "a").limit == 32
