"""The fold of the events: what is late changes nothing, what is deleted is nowhere, a snapshot says the same."""

import json
import random
from pathlib import Path

import pytest

from teamwright.protocol.event_json import from_json
from teamwright.protocol.events import (
    MemberChanged,
    MessageSent,
    ModelCallEnded,
    Progress,
    RequestClosed,
    RequestOpened,
    RunEnded,
    SessionOpened,
    TaskChanged,
    TaskInfo,
    TeamChanged,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.usage import Usage
from teamwright.team_records.team_status import MAX_OPEN_TASKS, TeamStatus


def moved(name, state, *, life=1, turn=0, at=0.0, detail=""):
    return MemberChanged(member=name, state=state, incarnation=life, turn=turn, at=at, detail=detail)


def led(change="created", directory="crew"):
    return TeamChanged(member=LEAD, team=directory.title(), directory=directory, change=change)


def task(id, status, change, owner=None):
    info = TaskInfo(id=id, subject="s", status=status, owner=owner)
    return TaskChanged(member=LEAD, task=info, change=change, at=1.0)


def folded(*events) -> TeamStatus:
    made = TeamStatus()
    for number, event in enumerate(events, 1):
        made.apply(number, event)
    return made


@pytest.mark.promise("F24")
def test_an_idle_event_of_an_older_turn_that_comes_late_changes_nothing():
    standing = folded(
        moved("ada", "working", turn=1), moved("ada", "working", turn=2, at=5), moved("ada", "idle", turn=1, at=6)
    )
    assert (standing.members["ada"].state, standing.members["ada"].turn) == ("working", 2)
    standing.apply(9, moved("ada", "idle", turn=2, at=7))
    assert standing.members["ada"].state == "idle"


@pytest.mark.promise("F24", "F15")
def test_an_event_of_an_older_life_or_of_one_that_is_over_changes_nothing():
    standing = folded(moved("ada", "failed", turn=3, detail="broke"), moved("ada", "idle", turn=3))
    assert standing.members["ada"].state == "failed"
    standing.apply(3, moved("ada", "idle", life=2))
    standing.apply(4, moved("ada", "failed", life=1, turn=9))
    assert (standing.members["ada"].state, standing.members["ada"].incarnation) == ("idle", 2)


def test_logs_of_an_older_version_tell_no_lives_and_are_read_all_the_same():
    states = ("pending", "idle", "working", "idle", "completed", "pending", "working")
    standing = folded(*(moved("ada", state, life=0) for state in states))
    assert standing.members["ada"].state == "working"


@pytest.mark.promise("F24", "D8")
def test_a_session_that_goes_on_counts_turns_anew_and_whoever_is_not_heard_of_is_lost():
    standing = folded(
        moved("ada", "working", turn=7),
        moved("ben", "working", turn=7),
        moved("cyd", "suspended", turn=2),
        moved("dan", "completed", turn=1),
        RequestOpened(member="ben", request="r", kind="permission", tool="Bash", what="x"),
        SessionOpened(member=LEAD, pid=8),
        moved("ada", "idle", turn=0),
        moved("cyd", "idle", turn=0),
    )
    members = standing.members
    assert [(m.state, m.lost) for m in (members["ada"], members["ben"], members["cyd"], members["dan"])] == [
        ("idle", False),
        ("working", True),
        ("idle", False),
        ("completed", False),
    ]
    assert not standing.requests and standing.pid == 8


@pytest.mark.promise("F67")
def test_after_a_team_is_deleted_nothing_of_it_is_left_but_what_it_cost():
    usage = Usage(input_tokens=10, usd=1.0)
    standing = folded(
        led(),
        moved(LEAD, "working", life=0),
        moved("ada", "working"),
        ModelCallEnded(member="ada", usage=usage, model="m", tools=0),
        ModelCallEnded(member="sub1", usage=usage, model="m", tools=0),
        task("1", "pending", "created"),
        led("deleted"),
    )
    assert (standing.team, standing.directory, list(standing.members), standing.open_tasks) == ("", "", [LEAD], {})
    assert (standing.usage.input_tokens, standing.usage.usd) == (20, 2.0)


def test_another_team_takes_none_of_the_members_of_the_one_before():
    assert list(folded(led(), moved("ada", "idle"), led(directory="other")).members) == []
    assert list(folded(led(), moved("ada", "idle"), led("resumed")).members) == ["ada"]


def test_what_a_member_is_busy_with_is_over_with_the_next_word_of_it():
    busy = Progress(member="ada", doing="tool", what="Bash make", since=3.0, at=4.0)
    standing = folded(moved("ada", "working", turn=1), busy)
    ada = standing.members["ada"]
    assert (ada.doing, ada.what, ada.doing_since, ada.active) == ("tool", "Bash make", 3.0, 4.0)
    called = {"call": "c1", "tool": "Bash", "summary": "make", "outcome": "done", "seconds": 1.0, "input": {}}
    for over in (
        ToolCalled(member="ada", **called),
        ModelCallEnded(member="ada", usage=Usage(), model="m", tools=0),
        TurnEnded(member="ada", stop="done", text="t"),
        moved("ada", "idle", turn=1),
    ):
        standing.apply(2, busy)
        standing.apply(3, over)
        assert (ada.doing, ada.stalled) == ("", False)
    standing.apply(4, busy)  # a timer that came late
    assert ada.doing == ""


def test_whose_answer_a_member_may_wait_for_is_known_until_they_write_or_it_goes_on():
    def wrote(sender, to, wire=""):
        return MessageSent(member=sender, to=to, message_id="m", summary="s", wire=wire)

    standing = folded(moved("ada", "working", turn=1), moved("ben", "idle"), wrote("ada", "ben"), wrote("ada", "ben"))
    assert standing.members["ada"].wrote_to == ("ben",)
    standing.apply(5, wrote("ada", LEAD, wire="idle_notification"))
    assert standing.members["ada"].wrote_to == ("ben",)
    standing.apply(6, wrote("ben", "ada"))
    assert standing.members["ada"].wrote_to == ()
    standing.apply(7, wrote("ada", "ben"))
    standing.apply(8, moved("ada", "working", turn=2))
    assert standing.members["ada"].wrote_to == ()


def test_tasks_are_counted_from_their_changes():
    standing = folded(
        task("1", "pending", "created"),
        task("2", "pending", "created"),
        task("1", "in_progress", "claimed", "ada"),
        task("1", "completed", "completed", "ada"),
        task("1", "completed", "updated", "ada"),
    )
    assert (standing.open_tasks, standing.completed) == ({"2": ("pending", "")}, 1)
    standing.apply(6, task("1", "pending", "updated"))
    assert (sorted(standing.open_tasks), standing.completed) == (["1", "2"], 0)
    standing.apply(7, task("1", "deleted", "deleted"))
    standing.apply(8, task("2", "completed", "completed"))
    standing.apply(9, task("2", "deleted", "deleted"))
    assert (standing.open_tasks, standing.completed) == ({}, 0)


def random_event(rng: random.Random, at: float):
    name = rng.choice([LEAD, "ada", "ben", "sub1"])
    info = TaskInfo(id=str(rng.randrange(6)), subject="s", status=rng.choice(["pending", "completed", "deleted"]))
    return rng.choice(
        [
            lambda: moved(name, rng.choice(["idle", "working", "failed"]), turn=rng.randrange(4), at=at),
            lambda: Progress(member=name, doing="model", since=at, at=at, stalled=rng.random() < 0.5),
            lambda: ModelCallEnded(member=name, usage=Usage(output_tokens=rng.randrange(9)), model="m", tools=0, at=at),
            lambda: MessageSent(member=name, to="ben", message_id="m", summary="s", at=at),
            lambda: TaskChanged(member=name, task=info, change=rng.choice(["created", "updated"]), at=at),
            lambda: RequestOpened(member=name, request="r", kind="question", tool="", what="why?", at=at),
            lambda: RequestClosed(member=name, request="r", verdict="deny", by="policy", at=at),
            lambda: led(rng.choice(["created", "deleted"])),
            lambda: SessionOpened(member=LEAD, pid=rng.randrange(99), at=at),
            lambda: RunEnded(member=LEAD, stop="done", text="", usage=Usage(), at=at),
        ]
    )()


@pytest.mark.promise("P3")
@pytest.mark.parametrize("seed", range(12))
def test_a_snapshot_at_any_moment_and_what_comes_behind_it_say_the_same_as_all_the_events(seed):
    rng = random.Random(seed)
    whole = TeamStatus()
    events = [random_event(rng, float(at)) for at in range(200)]
    cut = rng.randrange(200)
    for number, event in enumerate(events[:cut], 1):
        whole.apply(number, event)
    again = TeamStatus.from_json(cut, json.loads(json.dumps(whole.as_json())))
    assert again == whole or cut == 0
    for number, event in enumerate(events[cut:], cut + 1):
        whole.apply(number, event)
        again.apply(number, event)
    assert again == whole


def test_a_snapshot_of_version_1_is_read():
    lines = (Path(__file__).parent.parent / "golden" / "events_v1.jsonl").read_text().splitlines()
    read = TeamStatus.from_json(23, json.loads(lines[-1])["state"])
    applied = TeamStatus()
    for line in lines[:-1]:
        data = json.loads(line)
        applied.apply(data["n"], from_json(data))
    assert read == applied and read.members["ann"].incarnation == 2


def test_a_snapshot_stays_small_and_one_that_is_newer_or_damaged_is_passed_over():
    standing = folded(*(task(str(n), "pending", "created") for n in range(MAX_OPEN_TASKS + 50)))
    state = standing.as_json()
    assert state["tasks"]["pending"] == MAX_OPEN_TASKS + 50 and len(state["tasks"]["open"]) == MAX_OPEN_TASKS
    assert TeamStatus.from_json(1, state | {"version": 3}) is None
    assert TeamStatus.from_json(1, state | {"members": [{"state": 3}]}) is None
    assert TeamStatus.from_json(1, {}) is None


def test_members_that_are_gone_are_forgotten_in_the_end_and_their_cost_is_not():
    events = []
    for n in range(200):
        events += [moved(f"m{n}", "working", turn=1)]
        events += [ModelCallEnded(member=f"m{n}", usage=Usage(output_tokens=1), model="m", tools=0)]
        events += [moved(f"m{n}", "completed", turn=1)]
    standing = folded(*events)
    assert len(standing.members) <= 65 and standing.usage.output_tokens == 200
