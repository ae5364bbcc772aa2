"""The event log: numbered, whole after a kill, shown to fast and slow readers, never the reason that a team stops."""

import asyncio
import json

import pytest

from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import MemberChanged, MessageSent, Notice, TextDelta, ToolCalled
from teamwright.storage import log as module
from teamwright.storage.jsonl import Journal
from teamwright.storage.log import EventLog
from teamwright.storage.log_reader import read_events


def note(text):
    return Notice(member="system", text=text, at=1.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "session" / "events.jsonl"


def texts(path, after=0):
    return [(n, event.text) for n, event in read_events(path, after)]


def test_events_are_numbered_written_and_read_back_as_they_were(path):
    events = [
        note("one"),
        MessageSent(member="alice", at=2.0, to="bob", message_id="m", summary="hello"),
        MemberChanged(member="alice", at=3.0, state="idle"),
    ]
    log = EventLog(path)
    for event in events:
        log.emit(event)
    log.close()
    log.close()
    assert list(read_events(path)) == list(enumerate(events, 1))
    first = json.loads(path.read_bytes().splitlines()[0])
    assert list(first)[:3] == ["n", "v", "type"]
    assert (first["n"], first["v"]) == (1, 1)


async def test_a_tick_of_the_loop_is_one_write(path, monkeypatch):
    writes = []
    append = Journal.append
    monkeypatch.setattr(Journal, "append", lambda self, *lines: (writes.append(len(lines)), append(self, *lines))[1])
    log = EventLog(path)
    for n in range(5):
        log.emit(note(str(n)))
    assert writes == []
    await asyncio.sleep(0)
    assert writes == [5]
    assert len(texts(path)) == 5
    log.close()


def test_numbering_goes_on_after_a_kill_and_a_torn_line(path):
    log = EventLog(path)
    log.emit(note("one"))
    log.emit(note("two"))
    with path.open("ab") as file:
        file.write(b'{"n":3,"v":1,"type":"noti')
    again = EventLog(path)
    assert again.last == 2
    again.emit(note("three"))
    again.close()
    assert texts(path) == [(1, "one"), (2, "two"), (3, "three")]


def test_reading_begins_behind_a_number_and_leaves_out_kinds_of_newer_versions(path):
    log = EventLog(path)
    log.emit(note("one"))
    with path.open("ab") as file:
        file.write(b'{"n":2,"v":9,"type":"from_the_future","member":"x"}\n["odd"]\n')
    log.close()
    log = EventLog(path)
    log.emit(note("three"))
    log.close()
    assert texts(path) == [(1, "one"), (3, "three")]
    assert texts(path, after=1) == [(3, "three")]
    assert list(read_events(path.with_name("none"))) == []


async def test_live_events_are_shown_and_never_logged(path):
    log = EventLog(path)
    seen = []
    unsubscribe = log.subscribe(lambda n, event: seen.append((n, event.KIND)))
    log.emit(note("one"))
    log.emit(TextDelta(member="alice", text="Hel"))
    unsubscribe()
    log.emit(note("two"))
    log.close()
    assert seen == [(1, "notice"), (1, "text_delta")]
    assert [n for n, _ in read_events(path)] == [1, 2]


async def test_a_subscriber_that_fails_stops_nobody(path):
    log = EventLog(path)
    seen = []

    def fail(n, event):
        raise ZeroDivisionError

    log.subscribe(fail)
    log.subscribe(lambda n, event: seen.append(n))
    log.emit(note("one"))
    log.close()
    assert seen == [1]


class Reader:
    """Follows a log in a task; can be waited for until it has an event."""

    def __init__(self, log, after):
        self.got = []
        self._some = asyncio.Event()
        self.task = asyncio.create_task(self._read(log, after))

    async def _read(self, log, after):
        async for n, event in log.follow(after):
            self.got.append((n, getattr(event, "text", "")))
            self._some.set()

    async def has(self, number):
        while not self.got or self.got[-1][0] < number:
            self._some.clear()
            await self._some.wait()


async def test_a_follower_gets_what_was_and_what_comes_until_the_log_closes(path):
    log = EventLog(path)
    for n in range(1, 201):
        log.emit(note(str(n)))
    async with asyncio.timeout(10):
        reader = Reader(log, 150)
        await reader.has(200)
        log.emit(note("201"))
        log.emit(TextDelta(member="alice", text="live"))
        await asyncio.sleep(0)
        log.emit(note("202"))
        log.close()
        await reader.task
    assert reader.got == [(n, str(n)) for n in range(151, 202)] + [(201, "live"), (202, "202")]


async def test_a_slow_follower_is_served_from_the_file_without_a_gap_and_live_events_are_dropped_for_it(
    path, monkeypatch
):
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    log = EventLog(path)
    async with asyncio.timeout(10):
        reader = Reader(log, 0)
        for _ in range(5):
            await asyncio.sleep(0)
        for n in range(1, 301):
            log.emit(note(str(n)))
            log.emit(TextDelta(member="alice", text="live"))
        await reader.has(300)
        log.close()
        await reader.task
    got = reader.got
    assert [item for item in got if item[1] != "live"] == [(n, str(n)) for n in range(1, 301)]
    assert len(got) < 320


async def test_a_follower_that_goes_away_leaves_nothing_behind(path):
    log = EventLog(path)
    log.emit(note("one"))
    following = log.follow()
    async with asyncio.timeout(5):
        assert (await anext(following))[0] == 1
    await following.aclose()
    log.emit(note("two"))
    log.close()
    assert [n for n, _ in read_events(path)] == [1, 2]


async def test_a_full_disk_is_told_once_and_the_team_goes_on(path, monkeypatch):
    log = EventLog(path)
    seen = []
    log.subscribe(lambda n, event: seen.append(event.text))

    def refuse(self, *lines):
        raise StorageError("disk-full", "the disk is full")

    with monkeypatch.context() as full:
        full.setattr(Journal, "append", refuse)
        for text in ("one", "two"):
            log.emit(note(text))
            log.flush()
    log.emit(note("three"))
    log.close()
    assert seen[0] == "one"
    assert "the disk is full" in seen[1]
    assert seen[2:] == ["two", "three"]
    assert texts(path) == [(3, "three")]


def test_an_input_that_json_cannot_hold_does_not_lose_the_event(path):
    loop = []
    loop.append(loop)
    log = EventLog(path)
    for odd in ({"x": loop}, {"x": "\ud800"}, {"x": object()}):
        log.emit(ToolCalled(member="a", call="c1", tool="Bash", summary="", outcome="done", seconds=0.1, input=odd))
    log.emit(note("last"))
    log.close()
    assert [json.loads(line)["n"] for line in path.read_bytes().splitlines()] == [1, 2, 3, 4]
    assert texts(path, after=3) == [(4, "last")]
