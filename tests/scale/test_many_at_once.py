"""Hundreds of members in one event loop take their turns together, with few descriptors and little memory each."""

import re

import pytest

from tests.scale.crew import child

MEMBERS = 200
DESCRIPTORS = 256
KB_A_MEMBER = 160
"""Heap of a member with its prefix, its tools, its inbox and three short turns; about 65 here."""


@pytest.mark.slow
@pytest.mark.promise("E1", "P1", "P2", "P6", "F62")
def test_two_hundred_members_do_their_tasks_write_to_each_other_and_rest_with_256_descriptors(tmp_path):
    found = child("together", {"root": str(tmp_path), "members": MEMBERS}, descriptors=DESCRIPTORS)
    assert found["limit"] == DESCRIPTORS
    assert found["most_open"] < DESCRIPTORS - 50, "what tools open needs room too"
    assert found["states"] == ["idle"]
    # Each task is done once, by one member.
    assert sorted(map(int, found["completed"])) == list(range(1, MEMBERS + 1))
    assert (found["claims"], found["completions"]) == (MEMBERS, MEMBERS)
    # Each message is read once, by its reader and by the log.
    assert len(found["words"]) == len(set(found["words"])) == MEMBERS
    assert {int(re.fullmatch(r"m\d+ did (\d+)", word)[1]) for word in found["words"]} == set(range(1, MEMBERS + 1))
    assert (found["told"], found["seen"], found["unread"]) == (1, 1, [])
    # Nobody asks a model without need: three rounds a task, at most one more for a letter.
    assert 3 * MEMBERS <= found["asked"] <= 4 * MEMBERS
    assert found["kb_worked"] < KB_A_MEMBER
    assert found["left"] < 20
