"""The event log: numbered, whole after a kill, shown to fast and slow readers, never the reason that a team stops."""

import asyncio
import json

import pytest

from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import (
    MemberChanged,
    MessageSent,
    ModelCallEnded,
    Notice,
    RequestOpened,
    RunEnded,
    TextDelta,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.usage import Usage
from teamwright.storage import event_log as module
from teamwright.storage.event_log import SNAPSHOT_EVERY, EventLog, LogTail, read_events, read_recent
from teamwright.storage.json_lines import Journal
from tests.support.waits import WAIT_S


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
    assert (first["n"], first["v"]) == (1, 2)


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
    assert again.last_number == 2
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
    async with asyncio.timeout(WAIT_S):
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
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    log = EventLog(path)
    async with asyncio.timeout(WAIT_S):
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
    async with asyncio.timeout(WAIT_S):
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


async def test_what_an_event_holds_of_others_is_logged_as_it_was_when_it_happened(path):
    log = EventLog(path)
    given = {"command": "ls"}
    log.emit(RequestOpened(member="a", request="r1", kind="permission", tool="Bash", what="ls", input=given))
    given["command"] = "rm"
    await asyncio.sleep(0)
    [(_, event)] = read_events(path)
    assert event.input == {"command": "ls"}
    log.close()


async def test_an_event_is_written_after_those_who_act_on_it_went_on(path):
    log = EventLog(path)
    seen = []
    log.subscribe(lambda _number, event: seen.append(event.text))
    log.emit(note("one"))
    assert (seen, path.read_bytes()) == (["one"], b"")
    await asyncio.sleep(0)
    assert texts(path) == [(1, "one")]
    log.close()


async def test_a_subscriber_of_some_kinds_gets_no_other_events_until_it_unsubscribes(path):
    log = EventLog(path)
    seen = []
    unsubscribe = log.subscribe(lambda _number, event: seen.append(event.KIND), kinds=(RunEnded, TurnEnded))
    turn = TurnEnded(member="a", stop="done", text="")
    for event in (note("one"), turn, TextDelta(member="a", text="b"), turn):
        log.emit(event)
    assert (seen, log.has_listeners()) == (["turn_ended", "turn_ended"], False)
    unsubscribe()
    log.emit(turn)
    assert len(seen) == 2
    log.close()


# ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────────


class Counting:
    """A state that counts the events it was told of."""

    def __init__(self, count=0):
        self.count = count

    def apply(self, number, event):
        self.count += 1

    def as_json(self):
        return {"count": self.count}


def counted(path, count=0):
    log = EventLog(path, Counting(count))
    return log


@pytest.mark.promise("P3")
def test_every_so_many_events_there_is_a_snapshot_that_uses_up_no_number(path):
    log = counted(path)
    for n in range(1, 2 * SNAPSHOT_EVERY + 8):
        log.emit(note(str(n)))
    recent = read_recent(path)
    assert (recent.snapshot.number, recent.snapshot.state, recent.snapshot.is_closed) == (1000, {"count": 1000}, False)
    assert [n for n, _ in recent.events] == list(range(1001, 1008)) and recent.is_complete
    assert [n for n, _ in read_events(path)] == list(range(1, 1008))
    log.close()
    closed = read_recent(path)
    assert (closed.snapshot.number, closed.snapshot.is_closed, closed.events) == (1007, True, [])
    assert EventLog(path).last_number == 1007


@pytest.mark.promise("P3", "D8")
def test_a_log_that_goes_on_after_a_kill_begins_with_a_snapshot_so_that_reading_back_stays_bounded(path):
    count = 0
    for _ in range(4):  # each life is killed before its next snapshot
        log = counted(path, count)
        for n in range(300):
            log.emit(note(str(n)))
            count += 1
    recent = read_recent(path)
    assert recent.snapshot.number == 901 and len(recent.events) == 299
    assert recent.snapshot.state == {"count": 901}


def test_a_log_without_a_snapshot_is_read_whole_and_at_most_so_far(path):
    log = EventLog(path)
    for n in range(1, 51):
        log.emit(note(str(n)))
    log.close()
    assert len(read_recent(path).events) == 50
    some = read_recent(path, most=20)
    assert [n for n, _ in some.events] == list(range(31, 51)) and not some.is_complete
    assert read_recent(path.with_name("none")).events == []


def test_a_damaged_snapshot_and_a_state_that_cannot_be_written_stop_nobody(path):
    log = counted(path)
    log.emit(note("one"))
    log.state.as_json = lambda: 1 / 0
    log.close()
    with path.open("ab") as file:
        file.write(b'{"n":1,"v":1,"type":"snapshot","at":1,"closed":true,"state":[]}\n{"n":1,"v":1,"type":"snapshot"\n')
    recent = read_recent(path)
    assert recent.snapshot is None and len(recent.events) == 1


class Broken(Counting):
    def apply(self, number, event):
        raise ZeroDivisionError


async def test_a_state_that_fails_stops_neither_the_log_nor_its_surfaces(path):
    log = EventLog(path, Broken())
    seen = []
    log.subscribe(lambda n, event: seen.append(n))
    log.emit(note("one"))
    log.close()
    assert seen == [1] and len(texts(path)) == 1


# ── on from a place ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_tail_begins_at_the_end_of_the_whole_lines_and_sees_what_comes(path):
    log = counted(path)
    log.emit(note("x" * 200_000))
    log.emit(note("two"))
    with path.open("ab") as file:
        file.write(b'{"n":3,"v":1,"ty')
    tail = LogTail.at_end(path)
    assert tail.read() == []
    with path.open("ab") as file:
        file.write(b'pe":"notice","at":1.0,"member":"system","text":"three","level":"info"}\n')
    assert [n for n, _ in tail.read()] == [3]
    assert not tail.closed
    log = counted(path)
    log.close()
    assert tail.read() == [] and tail.closed
    log = counted(path)
    log.emit(note("four"))
    assert [n for n, _ in tail.read()] == [4] and not tail.closed


def test_a_tail_waits_for_a_log_that_is_not_there_yet_and_begins_anew_with_another_file(path):
    tail = LogTail.at_end(path)
    assert tail.read() == []
    log = EventLog(path)
    log.emit(note("one"))
    assert [n for n, _ in tail.read()] == [1]
    log.close()
    path.rename(path.with_name("old"))
    other = EventLog(path)
    for text in ("other one", "other two"):
        other.emit(note(text))
    assert [event.text for _, event in tail.read()] == ["other two"]


@pytest.mark.finding("D2")
@pytest.mark.promise("P5")
def test_damaged_lines_in_the_middle_are_told_when_the_log_is_opened_again_and_kept_beside(path):
    log = EventLog(path)
    for n in range(1, 6):
        log.emit(note(f"event {n}"))
    log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"\0" * (len(lines[1]) - 1) + b"\n"
    lines[3] = lines[3].replace(b'"text"', b'"te\x00t')
    path.write_bytes(b"".join(lines))
    again = EventLog(path)
    again.close()
    assert again.lost_lines is not None and again.lost_lines.copy.read_bytes() == lines[1] + lines[3]
    assert [text.partition(" of ")[0] for _, text in texts(path)] == ["event 1", "event 3", "event 5", "2 lines"]
    assert all(json.loads(line) for line in path.read_bytes().splitlines())
    third = EventLog(path)
    third.close()
    assert third.lost_lines is None and third.last_number == 6


async def test_the_money_of_an_answer_is_in_the_file_before_the_work_continues(tmp_path):
    """A kill in the next step, while a command starts, must not lose what was spent."""
    log = EventLog(tmp_path / "events.jsonl")
    spent = ModelCallEnded(member="ann", usage=Usage(output_tokens=3, requests=1, usd=0.25), model="m", tools=1)
    log.emit(spent)
    [(_, read)] = read_events(log.path)
    assert isinstance(read, ModelCallEnded) and read.usage.usd == 0.25
    log.close()
