"""Write sets: the overlap of patterns, and tasks of one checkout that wait for each other."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.errors import TaskRefused, UsageError
from teamwright.protocol.task import Task
from teamwright.tasks.completion_conditions import task_notes
from teamwright.tasks.task_list import TaskList
from teamwright.tasks.write_sets import overlaps

pytestmark = pytest.mark.finding("L7")


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/b.py", False),
        ("src", "src/deep/a.py", True),  # a name without / matches at any depth, with all below it
        ("*.py", "docs/x/tool.py", True),
        ("*.py", "docs/*.md", True),  # a directory may be named x.md and contain a.py
        ("src/**", "src/a/b.py", True),
        ("src/**/test_*.py", "src/app/test_x.py", True),
        ("src/a*.py", "src/b*.py", False),
        ("src/*a.py", "src/b*.py", True),
        ("src/?.py", "src/ab.py", False),
        ("SRC/a.py", "src/A.py", True),
        ("src/parser/**", "docs/parser.md", False),
    ],
)
def test_two_patterns_overlap_when_a_path_may_match_both(one, other, meets):
    assert bool(overlaps([one], [other])) is meets
    assert bool(overlaps([other], [one])) is meets


def expression(pattern: str) -> re.Pattern[str]:
    """An expression in the meaning of the documentation, written apart from the implementation."""
    parts = pattern.split("/") if "/" in pattern else ["**", pattern]
    made = ""
    for part in parts:
        made += r"(?:/[^/]+)*" if part == "**" else "/" + re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return re.compile(f"{made}(?:/.*)?")


NAMES = st.text("ab", min_size=1, max_size=3)
SEGMENTS = st.one_of(st.just("**"), st.text("ab*?", min_size=1, max_size=3).filter(lambda text: "**" not in text))
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


@given(PATTERNS, PATTERNS, st.lists(NAMES, min_size=1, max_size=5))
def test_two_patterns_that_match_one_path_always_overlap(one, other, names):
    path = "/" + "/".join(names)
    if expression(one).fullmatch(path) and expression(other).fullmatch(path):
        assert overlaps([one], [other])


async def declare(tasks: TaskList, *sets: list[str]) -> None:
    for number, patterns in enumerate(sets, 1):
        await tasks.create(f"task {number}", "", by="team-lead", metadata={"writes": patterns})


async def test_an_overlapping_task_waits_until_the_other_is_completed_and_says_for_what(tasks):
    await declare(tasks, ["src/a.py"], ["src/**"], ["docs/**"])
    assert (await tasks.claim_next("ann")).id == "1"
    assert (await tasks.claim_next("ben")).id == "3", "the second waits, the third does not"
    assert await tasks.claim_next("cid") is None
    listed = await tasks.all()
    assert task_notes(listed[1], listed) == ("waits for #1 (ann: src/a.py)",)
    with pytest.raises(TaskRefused) as refused:
        await tasks.update("2", by="cid", status="in_progress")
    assert refused.value.code == "writes_overlap" and "#1 (ann: src/a.py)" in refused.value.what
    await tasks.update("1", by="ann", status="completed")
    assert (await tasks.claim_next("cid")).id == "2"


async def test_one_member_may_have_two_overlapping_tasks_in_progress(tasks):
    await declare(tasks, ["src"], ["src"])
    await tasks.update("1", by="ann", status="in_progress")
    assert (await tasks.update("2", by="ann", status="in_progress")).task.status == "in_progress"


async def test_a_started_task_gets_no_set_that_overlaps(tasks):
    await declare(tasks, ["src/**"], ["docs/**"])
    await tasks.claim_next("ann")
    await tasks.claim_next("ben")
    with pytest.raises(TaskRefused) as refused:
        await tasks.update("2", by="ben", writes=["src/a.py"])
    assert refused.value.code == "writes_overlap"


class InWorktrees:
    """The port to worktrees: every member has one, without new commits."""

    async def save(self, task: Task, by: str) -> None:
        return None

    def has(self, member: str) -> bool:
        return True

    async def move(self, task: Task, member: str) -> None:
        pass


async def test_in_worktrees_both_run_and_the_overlap_is_shown(tasks):
    apart = TaskList(tasks.store, work=InWorktrees())
    await declare(apart, ["src"], ["src"])
    assert (await apart.claim_next("ann")).id == "1"
    assert (await apart.claim_next("ben")).id == "2"
    listed = await apart.all()
    assert task_notes(listed[1], listed) == ("overlaps #1 (ann: src)",)
    await apart.release("ben")
    assert (await tasks.claim_next("cid")).id == "2", "only the released one is in the shared checkout"


@pytest.mark.parametrize("value", ["src", ["/etc"], ["../x"], ["~/x"], [""], [3], ["a"] * 101])
async def test_a_set_is_a_list_of_patterns_below_the_repository(tasks, value):
    with pytest.raises(UsageError):
        await tasks.create("a", "", by="team-lead", metadata={"writes": value})
