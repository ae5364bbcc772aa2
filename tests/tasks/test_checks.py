"""Checks and the list: whatever is done in whatever order, nothing of ours is completed while its check fails."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.protocol.errors import TaskRefused, UsageError
from teamwright.protocol.task import TaskStatus
from teamwright.storage.paths import Home
from teamwright.tasks.completion_conditions import TaskCheckResult
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from tests.support.examples import examples

pytestmark = pytest.mark.promise("B8", "F19")


class Flags:
    """The port: commands are names of flags, which fall and rise as the test says; a run gives way in between."""

    def __init__(self, team_wide=""):
        self.up = set()
        self.team_wide = team_wide
        self.allowed = set()
        self.seen = []
        self.running = 0
        self.meanwhile = None

    search_path = ""

    def commands(self, task):
        return tuple(dict.fromkeys(c for c in (task.check, self.team_wide) if c))

    def allow(self, command, seen_from):
        self.allowed.add(command)

    async def run(self, task, commands, by):
        if not set(commands) <= self.allowed | {self.team_wide}:
            return TaskCheckResult(passed=False, was_run=False)
        found = set(commands) <= self.up
        await asyncio.sleep(0)
        if self.meanwhile is not None:
            await self.meanwhile()
        self.seen.append((task.id, commands, found))
        return TaskCheckResult(passed=found, reason=f"{commands} {'passed' if found else 'failed'}")


def a_list(root, flags):
    home = Home.at(Path(root))
    completions = []

    def told(task, change, by):
        if change == "completed":
            completions.append((task.id, flags.commands(task), list(flags.seen)))

    return TaskList(FileTaskStore(home.tasks("demo"), home.guard), on_change=told, check=flags), completions


WHO = st.sampled_from(["ann", "ben", "team-lead"])
FLAG = st.sampled_from(["a", "b", None])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), WHO, FLAG),
        st.tuples(st.just("complete"), WHO, st.integers(1, 4)),
        st.tuples(st.just("complete_and_set"), WHO, st.integers(1, 4), FLAG),
        st.tuples(st.just("set"), WHO, st.integers(1, 4), FLAG),
        st.tuples(st.just("reopen"), WHO, st.integers(1, 4)),
        st.tuples(st.just("claim"), WHO, st.integers(1, 4)),
        st.tuples(st.just("forge"), WHO, st.integers(1, 4), FLAG),
        st.tuples(st.just("flip"), st.sampled_from(["a", "b", "t"])),
        st.tuples(st.just("together"), WHO, WHO, st.integers(1, 4)),
    ),
    max_size=25,
)


async def step(tasks, flags, one):
    kind, *rest = one
    if kind == "flip":
        flags.up ^= {rest[0]}
        return
    who, lead = rest[0], rest[0] == "team-lead"
    if kind == "create":
        await tasks.create("s", "", by=who, metadata={"check": rest[1]} if rest[1] else None)
    elif kind == "together":
        both = (tasks.update(str(rest[2]), by=w, lead=w == "team-lead", status="completed") for w in rest[:2])
        await asyncio.gather(*both, return_exceptions=True)
    elif kind == "claim":
        await tasks.update(str(rest[1]), by=who, status="in_progress")
    else:
        wish = {
            "complete": lambda: {"status": "completed"},
            "complete_and_set": lambda: {"status": "completed", "metadata": {"check": rest[2]}},
            "set": lambda: {"metadata": {"check": rest[2]}},
            "reopen": lambda: {"status": "pending"},
            "forge": lambda: {"metadata": {"checked": [rest[2] or "t"]}},
        }[kind]()
        await tasks.update(str(rest[1]), by=who, lead=lead, **wish)


@settings(max_examples=examples(80))
@given(STEPS, st.sampled_from(["", "t"]))
def test_no_task_of_ours_is_completed_while_its_check_fails(steps, team_wide):
    async def play(root):
        flags = Flags(team_wide)
        tasks, completions = a_list(root, flags)
        for one in steps:
            try:
                await step(tasks, flags, one)
            except TaskRefused as refused:
                assert refused.code != "changed" or one[0] == "together"
        for id, commands, seen in completions:
            assert not commands or (id, commands, True) in seen, f"#{id} was completed without {commands}"
        for task in await tasks.all():
            if task.status is TaskStatus.COMPLETED and task.metadata and "checked" in task.metadata:
                assert (task.id, tuple(task.metadata["checked"]), True) in flags.seen, (
                    "nobody can say so but the runtime"
                )

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(play(root))


@pytest.mark.parametrize("what", ["description", "owner", "check"])
async def test_what_happens_while_a_check_runs_counts(tmp_path, what):
    flags = Flags()
    flags.up = {"a", "b"}
    tasks, _ = a_list(tmp_path, flags)
    await tasks.create("s", "", by="ann", metadata={"check": "a"})
    wishes = {
        "description": {"description": "other work"},
        "owner": {"owner": "ben"},
        "check": {"metadata": {"check": "b"}},
    }

    async def meanwhile():
        flags.meanwhile = None
        await tasks.update("1", by="team-lead", lead=True, **wishes[what])

    flags.meanwhile = meanwhile
    with pytest.raises(TaskRefused) as refused:
        await tasks.update("1", by="ann", status="completed")
    assert refused.value.code in {"changed", "already_claimed"}
    assert (await tasks.get("1")).status == "pending"


async def test_a_check_that_may_not_be_run_leaves_an_unverified_completion(tmp_path):
    flags = Flags()
    tasks, _ = a_list(tmp_path, flags)
    await tasks.create("s", "", by="ann", metadata={"check": "a"})
    flags.allowed.clear()
    change = await tasks.update("1", by="ann", status="completed")
    assert change.task.status == "completed" and change.task.is_unverified and tasks.is_unverified(change.task)


async def test_who_may_not_complete_a_task_has_no_command_run(tmp_path):
    flags = Flags()
    tasks, _ = a_list(tmp_path, flags)
    await tasks.create("s", "", by="ann", metadata={"check": "a"})
    await tasks.create("t", "", by="ann", metadata={"check": "a"}, blocked_by=["1"])
    await tasks.update("1", by="ben", status="in_progress")
    for id in ("1", "2"):
        with pytest.raises(TaskRefused):
            await tasks.update(id, by="ann", status="completed")
    assert flags.seen == []


@pytest.mark.finding("T14")
@pytest.mark.parametrize("metadata", [{"check": 42}, {"check": ["make"]}, {"for": 7}, {"needs": [1]}, {"for": {}}])
async def test_a_key_of_metadata_that_means_something_is_refused_when_its_value_is_of_another_kind(tmp_path, metadata):
    home = Home(tmp_path, tmp_path / "ours")
    tasks = TaskList(FileTaskStore(home.tasks("demo"), home.guard))
    await tasks.create("s", "", by="ann", metadata={"check": None, "for": ["ann"], "needs": "Bash", "theirs": 42})
    with pytest.raises(UsageError, match=f"metadata.{next(iter(metadata))} must be"):
        await tasks.create("t", "", by="ann", metadata=metadata)
    with pytest.raises(UsageError, match="must be"):
        await tasks.update("1", by="ann", metadata=metadata)
    assert [task.id for task in await tasks.all()] == ["1"]
