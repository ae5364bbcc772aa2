"""Members and sub-agents come and go: memory, tasks, threads, descriptors and processes are back afterwards."""

import pytest

from tests.scale.crew import child

BYTES_OF_ONE = 24_000
"""What may be left in memory of a member or sub-agent that is over: caches that are not full yet, its usage, its state;
about 18,000 here. One that was let go of not at all would leave its conversation alone, 100,000."""

STANDING_MOST = 65
"""Members that are gone and still shown (64), and the lead."""


@pytest.mark.slow
@pytest.mark.promise("F62", "P6", "E1")
def test_after_a_hundred_members_one_by_one_twenty_together_and_a_hundred_sub_agents_all_is_back(tmp_path):
    spec = {"root": str(tmp_path), "sequential": 100, "together": 20, "subagents": 100}
    found = child("comings", spec)
    first, last = found["first"], found["subagents"]
    grown = last["heap"] - first["heap"]
    assert grown < first["heap"] * 0.12, f"{first['heap']} bytes after the first ten, {last['heap']} in the end"
    assert grown < BYTES_OF_ONE * 220
    same = (
        "descriptors",
        "tasks",
        "children",
        "watched",
        "bells",
        "timers",
        "talk",
        "inheritances",
        "derived",
        "subscribers",
    )
    for level in ("sequential", "together", "subagents"):
        assert {name: found[level][name] for name in same} == {name: first[name] for name in same}
        assert found[level]["threads"] <= first["threads"] + 2, "the pool of threads may still be filling"
        assert (found[level]["items"], found[level]["waiting"]) == (0, 0)
        assert found[level]["standing"] <= STANDING_MOST
        assert found[level]["remembered"] <= STANDING_MOST + spec["together"], "forgotten when the next one starts"
    assert (first["inheritances"], first["derived"], first["timers"], first["children"]) == (0, 0, 0, 0)
    assert found["after"]["tasks"] == 1
    assert found["after"]["descriptors"] <= first["descriptors"]
