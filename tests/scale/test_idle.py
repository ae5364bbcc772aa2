"""Twenty members that wait cost nothing but the slow look of the watcher, and who is written to wakes alone."""

from pathlib import Path

import pytest

from tests.scale.crew import child

pytestmark = pytest.mark.slow

MEMBERS = 20
LOOKS = 3
"""The net below the watcher looks every 2 s: twice in the window, and once more where it begins."""

FOLLOWED = 8
"""Files and directories that are looked at besides the members' inboxes."""

BUSY = ("open", "read", "write", "pread", "pwrite", "fsync", "flock", "mkdir", "rmdir", "rename", "listdir", "scandir")


@pytest.mark.slow
@pytest.mark.promise("F63", "P6", "F10", "E1")
def test_twenty_idle_members_wake_no_loop_and_touch_no_file_but_by_the_slow_look(tmp_path):
    found = child("idling", {"root": str(tmp_path), "members": MEMBERS})
    for window, waiting in (("idle", MEMBERS), ("half", MEMBERS // 2)):
        calls = found[window]
        assert {name: calls[name] for name in BUSY if name in calls} == {}
        assert 0 < calls["stat"] <= (waiting + FOLLOWED) * LOOKS, "each followed file once a look"
        # Of the loop itself: its own sleep, and two turns a look, however many members there are.
        assert calls["poll"] <= 4 + 3 * LOOKS
    assert found["half"]["stat"] < found["idle"]["stat"] * 0.75, "a member that is over is not looked after"
    assert found["same"] and not found["timers"], "no task, thread, descriptor or timer comes of waiting"
    assert found["woken"] == {f"m{MEMBERS - 1}": 1}


@pytest.mark.finding("T17")
def test_a_message_to_one_of_two_hundred_idle_members_costs_no_more_calls_than_to_one_of_ten(tmp_path):
    few, many = (
        child("idling", {"root": str(make(tmp_path / str(members))), "members": members, "wakes_only": True})["wake"]
        for members in (10, 200)
    )
    assert many <= 1.1 * few


def make(directory: Path) -> Path:
    directory.mkdir()
    return directory
