"""The contract of every task store, on files, in memory and in a database; `open_store` is like one more process."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.ids import now_ms
from teamwright.protocol.task import DRAFT, DRAFT_MS, Task, TaskStatus
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_rules import Actor, require_deletable
from teamwright.tasks.task_store import FollowedTaskStore
from tests.contracts.database_processes import database_processes
from tests.support.memory_stores import MemoryTaskStore, MemoryTaskTable

ANN, BEN = Actor("ann"), Actor("ben")


@pytest.fixture(params=["files", "memory", "database"])
async def open_store(request, tmp_path) -> AsyncIterator[Callable[[], FollowedTaskStore]]:
    if request.param == "database":
        async with database_processes(request.getfixturevalue("postgres").new_space()) as stores:
            yield lambda: stores().tasks("demo")
        return
    home, table = Home.at(tmp_path / "home"), MemoryTaskTable()
    files = request.param == "files"
    yield lambda: FileTaskStore(home.tasks("demo"), home.guard) if files else MemoryTaskStore(table)


def named(subject: str, **fields) -> Callable[[str], Task]:
    return lambda id: Task(id, subject, "", **fields)


def done(task: Task, _waiting) -> Task:
    return task.copy_with(status=TaskStatus.COMPLETED)


async def ids(store) -> list[str]:
    return [task.id for task in (await store.read()).tasks]


async def refused(code, call):
    with pytest.raises(TaskRefused) as caught:
        await call
    assert caught.value.code == code


@pytest.mark.slow_after(1)
async def test_a_new_task_is_read_by_every_store(open_store):
    one, other = open_store(), open_store()
    made = await one.create(named("a", metadata={"k": [1]}))
    assert (await other.read([made.id])).tasks == [made] and (await other.read()).tasks == [made]
    assert (await other.read(["77"])).tasks == [] and (await other.read([])).tasks == []


@pytest.mark.finding("3S14")
@pytest.mark.slow_after(1)
async def test_a_task_has_the_times_of_its_creation_and_of_its_last_change(open_store):
    store, before = open_store(), now_ms()
    await store.create(named("a"))
    await store.create(named("b"))
    await store.create(named("old", extra={"createdAt": 5, "updatedAt": 7, "x": 1}))
    made = {task.id: task.extra for task in (await store.read()).tasks}
    assert all(before <= made[id]["createdAt"] == made[id]["updatedAt"] <= now_ms() for id in "12")
    assert made["3"]["createdAt"] == 5 and made["3"]["updatedAt"] >= before and made["3"]["x"] == 1
    await store.change("1", lambda task, _waiting: task.copy_with(extra={"createdAt": 5, "updatedAt": 7}))
    await store.change("1", lambda task, _waiting: task.copy_with(subject="c"))
    await store.change("2", lambda task, _waiting: task)
    await store.change("3", done, [("3", "2")])
    read = {task.id: task.extra for task in (await open_store().read()).tasks}
    assert read["1"]["createdAt"] == 5 and read["1"]["updatedAt"] >= before
    assert read["2"]["createdAt"] == made["2"]["createdAt"] and read["2"]["updatedAt"] >= made["2"]["updatedAt"]


async def test_an_id_is_never_used_again(open_store):
    one, other = open_store(), open_store()
    for subject in "ab":
        await one.create(named(subject))
    await other.remove("2", lambda _task: None)
    assert (await one.create(named("c"))).id == "3" and await ids(other) == ["1", "3"]


@pytest.mark.slow_after(1)
async def test_tasks_are_created_at_once_by_several_with_different_ids(open_store):
    stores = [open_store() for _ in range(4)]
    made = await asyncio.gather(*[store.create(named(str(n))) for n in range(8) for store in stores])
    assert sorted(int(task.id) for task in made) == list(range(1, 33))


async def test_a_task_with_an_unknown_blocker_is_not_created(open_store):
    store = open_store()
    await store.create(named("a"))
    await refused("task_not_found", store.create(named("b", blocked_by=("9",)), ["9"]))
    assert await ids(store) == ["1"]


@pytest.mark.finding("3S9")
@pytest.mark.slow_after(1)
async def test_every_operation_on_a_list_without_tasks_says_that_there_is_no_such_task(open_store):
    store = open_store()
    assert (await store.read()).tasks == [] and (await store.read(["1"])).tasks == []
    assert (await store.claim_next(ANN)).claimed is None
    for call in (
        store.change("1", done),
        store.change("1", done, exclusive=True),
        store.change("1", done, [("2", "1")]),
        store.change("1", done, [("1", "2")], exclusive=True),
        store.remove("1", lambda _task: None),
        store.create(named("b", blocked_by=("9",)), ["9"]),
    ):
        await refused("task_not_found", call)
    assert await ids(store) == []


async def test_a_refused_change_changes_nothing(open_store):
    store = open_store()
    made = await store.create(named("a"))

    def refuse(task, _waiting):
        raise TaskRefused("reserved", "no")

    await refused("reserved", store.change("1", refuse))
    await refused("task_not_found", store.change("2", done))
    assert (await open_store().read()).tasks == [made]


@pytest.mark.slow_after(1)
async def test_no_change_is_lost_when_several_change_one_task(open_store):
    stores = [open_store() for _ in range(3)]
    await stores[0].create(named("a", metadata={"n": 0}))

    def count(task, _waiting):
        return task.copy_with(metadata={"n": task.metadata["n"] + 1})

    await asyncio.gather(*[store.change("1", count) for store in stores for _ in range(10)])
    assert (await open_store().read(["1"])).tasks[0].metadata == {"n": 30}


@pytest.mark.slow_after(1)
async def test_of_many_that_claim_each_task_has_one_owner(open_store):
    stores = [open_store() for _ in range(4)]
    for n in range(12):
        await stores[0].create(named(str(n)))

    async def claim_all(store, name):
        taken = []
        while (claimed := (await store.claim_next(Actor(name))).claimed) is not None:
            assert claimed.before.owner is None and claimed.after.owner == name
            taken.append(claimed.after.id)
        return taken

    found = await asyncio.gather(*[claim_all(store, f"m{n}") for n, store in enumerate(stores)])
    assert sorted(id for taken in found for id in taken) == sorted(str(n) for n in range(1, 13))
    owners = {task.id: task.owner for task in (await open_store().read()).tasks}
    assert owners == {id: f"m{n}" for n, taken in enumerate(found) for id in taken}


async def test_the_lowest_task_is_claimed_that_is_free_and_fits(open_store):
    store = open_store()
    await store.create(named("owned", owner="zoe"))
    await store.create(named("blocked", blocked_by=("1",)), ["1"])
    await store.create(named("reserved", metadata={"for": ["ben"]}))
    await store.create(named("free"))
    assert (await store.claim_next(ANN)).claimed.after.id == "4"
    assert (await store.claim_next(ANN)).claimed is None
    assert (await store.claim_next(BEN)).claimed.after.id == "3"


async def test_a_draft_is_not_claimed_and_the_attempt_says_when_it_will_be(open_store):
    store = open_store()
    until = now_ms() + DRAFT_MS
    await store.create(named("draft", metadata={DRAFT: {"by": "team-lead", "until": until}}))
    assert await open_store().claim_next(ANN) == (None, until)
    assert [task.id for task in (await store.read(drafts_of="team-lead")).tasks] == ["1"]
    assert not (await store.read(drafts_of="ann")).tasks
    await store.change("1", lambda task, _: task.copy_with(metadata=None))
    assert (await store.claim_next(ANN)).claimed is not None


async def test_an_edge_is_on_both_tasks_and_blocks(open_store):
    one, other = open_store(), open_store()
    for subject in "abc":
        await one.create(named(subject))
    change = await one.change("3", lambda task, _: task, [("1", "3"), ("2", "3")])
    assert change.after.blocked_by == ("1", "2") and list(change.touched) == ["1", "2"]
    found = await other.read()
    assert [task.blocks for task in found.tasks] == [("3",), ("3",), ()]
    assert found.open_blockers(found.tasks[2]) == ["1", "2"]
    assert (await other.read(["3"])).open_blockers(found.tasks[2]) == ["1", "2"]


async def test_a_change_knows_the_open_blockers_with_those_that_it_adds(open_store):
    store, seen = open_store(), []
    for subject in "abc":
        await store.create(named(subject))
    await store.change("1", done)
    await store.change("3", lambda task, waiting: seen.append(list(waiting())) or task, [("1", "3"), ("2", "3")])
    assert seen == [["2"]]


@pytest.mark.parametrize(
    ("edge", "code"), [(("1", "1"), "self_edge"), (("2", "1"), "cycle"), (("9", "1"), "task_not_found")]
)
@pytest.mark.slow_after(2)
async def test_a_bad_edge_is_refused_and_nothing_changes(open_store, edge, code):
    store = open_store()
    await store.create(named("a"))
    await store.create(named("b", blocked_by=("1",)), ["1"])
    before = (await store.read()).tasks
    await refused(code, store.change("1", done, [edge]))
    assert list((await open_store().read()).tasks) == list(before)


async def test_a_completion_names_the_tasks_that_it_unblocks(open_store):
    store = open_store()
    for subject in "ab":
        await store.create(named(subject))
    for blockers in (("1",), ("1", "2")):
        await store.create(named("c", blocked_by=blockers), blockers)
    assert [task.id for task in (await store.change("1", done)).unblocked] == ["3"]
    assert [task.id for task in (await store.change("2", done)).unblocked] == ["4"]
    assert (await store.change("2", lambda task, _: task)).unblocked == ()


def note(state: str) -> dict[str, dict[str, str]]:
    return {"integration": {"state": state, "branch": "teamwright/demo/ann", "tip": "b" * 40, "base": "a" * 40}}


@pytest.mark.finding("I4")
async def test_a_completed_task_blocks_others_until_its_commit_is_integrated(open_store):
    one, other = open_store(), open_store()
    await one.create(named("a"))
    await one.create(named("b", blocked_by=("1",)), ["1"])
    queued = await one.change("1", lambda task, _: done(task, _).copy_with(metadata=note("queued")))
    assert queued.unblocked == ()
    found = await other.read()
    assert found.open_blockers(found.tasks[1]) == ["1"]
    assert (await other.claim_next(ANN)).claimed is None
    merged = await one.change("1", lambda task, _: task.copy_with(metadata=note("merged")))
    assert [task.id for task in merged.unblocked] == ["2"]
    assert (await other.claim_next(ANN)).claimed.after.id == "2"


async def test_a_removed_task_whose_commit_is_not_integrated_unblocks(open_store):
    store = open_store()
    await store.create(named("a"))
    await store.create(named("b", blocked_by=("1",)), ["1"])
    await store.change("1", lambda task, _: done(task, _).copy_with(metadata=note("queued")))
    assert [task.id for task in (await store.remove("1", lambda _task: None)).unblocked] == ["2"]


async def test_a_removed_task_leaves_all_edges_and_unblocks(open_store):
    store = open_store()
    await store.create(named("a"))
    await store.create(named("b", blocked_by=("1",)), ["1"])
    change = await store.remove("1", lambda task: require_deletable(task, ANN))
    assert change.before.id == "1" and list(change.touched) == ["2"]
    assert [task.id for task in change.unblocked] == ["2"]
    assert [task.blocked_by for task in (await open_store().read()).tasks] == [()]
    await refused("task_not_found", store.remove("1", lambda _task: None))


async def test_a_refused_removal_removes_nothing(open_store):
    store = open_store()
    await store.create(named("a", owner="ben"))
    await refused("already_claimed", store.remove("1", lambda task: require_deletable(task, ANN)))
    assert await ids(open_store()) == ["1"]


async def test_changes_of_others_are_reported_once_and_own_ones_never(open_store):
    own, other, seen = open_store(), open_store(), []
    await own.create(named("before"))
    follower = own.follow(lambda one: seen.append((one.before and one.before.status, one.after and one.after.id)))
    await other.create(named("theirs"))
    await own.create(named("ours"))
    assert await follower.check_files() == {} and seen == [(None, "2")]
    await other.change("1", done)
    await other.remove("3", lambda _task: None)
    await follower.check_files()
    await follower.check_files()
    assert seen[1:] == [(TaskStatus.PENDING, "1"), (TaskStatus.PENDING, None)]
    follower.close()
    await other.change("2", done)
    assert len(seen) == 3


@pytest.mark.finding("L7")
@pytest.mark.slow
async def test_of_many_claims_at_once_no_two_overlapping_tasks_are_at_work(open_store):
    stores = [open_store() for _ in range(6)]
    for number in range(12):
        await stores[0].create(named(str(number), metadata={"writes": [f"src/{number % 3}.py"]}))
    for _ in range(4):
        attempts = await asyncio.gather(*[one.claim_next(Actor(f"m{number}")) for number, one in enumerate(stores)])
        claimed = [attempt.claimed.after for attempt in attempts if attempt.claimed is not None]
        assert len(claimed) == len({task.writes for task in claimed}) == 3
        for task in claimed:
            await stores[0].change(task.id, done)


@pytest.mark.finding("L7")
async def test_a_change_that_begins_an_overlapping_task_is_refused(open_store):
    one, other = open_store(), open_store()
    for patterns in (["src"], ["src/a.py"]):
        await one.create(named("a", metadata={"writes": patterns}))
    await one.claim_next(ANN)

    def begin(task, _waiting):
        return task.copy_with(status=TaskStatus.IN_PROGRESS, owner="ben")

    await refused("writes_overlap", other.change("2", begin, exclusive=True))
    await one.change("1", done)
    assert (await other.change("2", begin, exclusive=True)).after.owner == "ben"
