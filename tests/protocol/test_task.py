"""A task and its file."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from teamwright.protocol.task import Task, TaskStatus, open_blockers, parse_task

GOLDEN = Path(__file__).parent.parent / "golden"

FULL = Task(
    id="3",
    subject="T three",
    description="third",
    active_form="Doing three",
    owner="abe",
    blocks=("9",),
    blocked_by=("1", "2"),
    metadata={"k": 1, "z": None},
    extra={"createdAt": 1706000000000, "updatedAt": 1706000001000, "theirs": [1, {"x": "é"}]},
)


@pytest.mark.promise("B1")
def test_a_task_is_written_as_the_golden_file():
    assert FULL.encode() == (GOLDEN / "task_v1.json").read_bytes()
    assert parse_task((GOLDEN / "task_v1.json").read_bytes(), "3") == FULL


@pytest.mark.finding("3S14")
def test_a_change_renews_the_time_of_a_task_in_the_form_that_it_has():
    theirs = Task("1", "a", "", extra={"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"})
    assert theirs.with_times(theirs) is theirs
    renewed = theirs.copy_with(subject="b").with_times(theirs).extra
    assert renewed["createdAt"] == "2026-01-01T00:00:00Z" < renewed["updatedAt"]
    without = Task("1", "a", "")
    assert set(without.copy_with(subject="b").with_times(without).extra) == {"updatedAt"}
    new = without.with_times(None)
    assert list(json.loads(new.encode()))[-2:] == ["createdAt", "updatedAt"] and parse_task(new.encode(), "1") == new


text = st.text(max_size=20)
tasks = st.builds(
    Task,
    id=st.integers(1, 10**6).map(str),
    subject=text,
    description=text,
    status=st.sampled_from(TaskStatus),
    active_form=st.none() | text,
    owner=st.none() | st.text(min_size=1, max_size=9),
    blocks=st.lists(st.integers(1, 99).map(str), max_size=4).map(tuple),
    blocked_by=st.lists(st.integers(1, 99).map(str), max_size=4).map(tuple),
    metadata=st.none() | st.dictionaries(text, st.none() | st.integers() | text, max_size=3),
    extra=st.dictionaries(text.map("x-".__add__), st.integers(), max_size=2),
)


@pytest.mark.promise("B1")
def test_a_change_of_a_task_keeps_the_keys_of_other_programs():
    later = json.loads(FULL.encode()) | {"later": {"y": 2}}
    changed = replace(parse_task(json.dumps(later).encode(), "3"), subject="new")
    assert json.loads(changed.encode()) == later | {"subject": "new"}


@pytest.mark.promise("B1")
@given(tasks)
def test_a_task_survives_its_file(task):
    assert parse_task(task.encode(), task.id) == task


@pytest.mark.promise("B1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 200_000,
        '"x"',
        "{}",
        '{"id": "1", "subject": "s", "description": "", "status": "done", "blocks": [], "blockedBy": []}',
        '{"id": "1", "subject": "s", "status": "pending", "blocks": [], "blockedBy": []}',
        '{"id": "1", "subject": "s", "description": "", "status": "pending", "blocks": 5, "blockedBy": []}',
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
    ids=lambda text: repr(text[:40]),
)
def test_what_is_not_a_task_is_none(text):
    assert parse_task(text if isinstance(text, bytes) else text.encode(), "1") is None


@given(st.binary(max_size=60) | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
@pytest.mark.slow
def test_no_file_makes_reading_fail(raw):
    assert parse_task(raw, "1") is None


def test_the_name_of_the_file_wins_over_the_id_inside():
    assert parse_task(FULL.encode(), "8").id == "8"


@pytest.mark.promise("F17", "B3")
def test_open_blockers_are_those_that_exist_and_are_not_finished():
    task = Task("9", "s", "d", blocked_by=("10", "2", "3", "4", "5", "77"))
    queued = {"integration": {"state": "queued", "branch": "b", "tip": "c", "base": "a"}}
    states = {
        "10": Task("10", "s", "d"),
        "2": Task("2", "s", "d", status=TaskStatus.IN_PROGRESS, metadata=queued),
        "3": Task("3", "s", "d", status=TaskStatus.COMPLETED),
        "4": Task("4", "s", "d", status=TaskStatus.COMPLETED, metadata=queued),
        "5": Task("5", "s", "d", status=TaskStatus.COMPLETED, metadata={"integration": {"state": "odd"}}),
    }
    assert open_blockers(task, states) == ["2", "4", "10"]


@pytest.mark.promise("F14")
def test_reservations_are_one_name_or_many_and_nonsense_is_none():
    assert Task("1", "s", "d", metadata={"for": "ann", "needs": ["Edit", "Bash"]}).reserved_for == ("ann",)
    assert Task("1", "s", "d", metadata={"needs": ["Edit", "Bash"]}).needs == ("Edit", "Bash")
    assert Task("1", "s", "d", metadata={"for": {"x": 1}}).reserved_for == () and Task("1", "s", "d").needs == ()
