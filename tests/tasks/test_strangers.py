"""Others on the same files: they truncate and write, take no lock, and know nothing of our keys."""

import asyncio
import json
import os

import anyio
import pytest

from teamwright.protocol.errors import LockTimeout, StorageError, TaskRefused
from teamwright.storage.locks import lock_for
from tests.support.waits import WAIT_S


def put(tasks, id, **changes):
    """Change a task as a stranger does: no lock, in place."""
    file = tasks.store.directory / f"{id}.json"
    data = json.loads(file.read_bytes()) | changes
    file.write_text(json.dumps(data))


def new(tasks, number, **changes):
    data = {
        "id": str(number),
        "subject": f"s{number}",
        "description": "",
        "status": "pending",
        "blocks": [],
        "blockedBy": [],
    }
    tasks.store.directory.mkdir(parents=True, exist_ok=True)
    (tasks.store.directory / f"{number}.json").write_text(json.dumps(data | changes))


@pytest.mark.promise("B1")
async def test_files_without_a_number_for_a_name_are_left_out_and_left_alone(tasks):
    new(tasks, 1)
    others = {"abc.json": "{}", "3.json.tmp.0a0b": "{", "04.json": "{}"}
    for name, text in others.items():
        (tasks.store.directory / name).write_text(text)
    assert [t.id for t in await tasks.all()] == ["1"] and (await tasks.snapshot()).damaged == []
    assert (await tasks.claim_next("ann")).id == "1" and await tasks.claim_next("ann") is None
    assert {name: (tasks.store.directory / name).read_text() for name in others} == others


ODD = {
    "{}": "'subject', 'description', 'status', 'blocks', 'blockedBy' are missing",
    "[1]": "it is not a JSON object",
    "": "it is empty",
    '{"id"': "it is not whole JSON",
    "status": "'status' is \"completeD\", not one of pending, in_progress, completed",
    "owner": "'owner' is 5, not a name",
    "blocks": "'blocks' is null, not a list",
}


@pytest.mark.finding("D1")
@pytest.mark.promise("B1")
async def test_a_task_file_with_odd_json_is_damaged_and_never_taken_for_no_task(tasks):
    odd = {"status": "completeD", "owner": 5, "blocks": None}
    for number, text in enumerate(ODD, 1):
        new(tasks, number, **({text: odd[text]} if text in odd else {}))
        if text not in odd:
            (tasks.store.directory / f"{number}.json").write_text(text)
    new(tasks, 9, blockedBy=["1"])
    before = {path: path.read_bytes() for path in tasks.store.directory.iterdir()}
    assert [t.id for t in await tasks.all()] == ["9"]
    found = (await tasks.snapshot()).damaged
    assert [one.reason for one in found] == list(ODD.values())
    assert all(one.is_open and one.place == str(tasks.store.directory / f"{one.id}.json") for one in found)
    assert await tasks.claim_next("ann") is None, "what waits for a damaged task still waits"
    for id in ("1", "5"):
        with pytest.raises(StorageError, match=rf"{id}\.json is not a whole task") as caught:
            await tasks.update(id, by="ann", status="completed")
        assert caught.value.slug == "damaged-file"
    assert {path: path.read_bytes() for path in tasks.store.directory.iterdir()} == before


@pytest.mark.promise("B1")
async def test_the_name_of_the_file_is_the_number_whatever_is_inside(tasks):
    new(tasks, 7, id="3")
    assert [t.id for t in await tasks.all()] == ["7"]
    await tasks.update("7", by="ann", status="in_progress")
    assert json.loads((tasks.store.directory / "7.json").read_bytes())["id"] == "7"


async def test_an_empty_owner_of_a_stranger_is_nobody(tasks):
    new(tasks, 1, owner="")
    assert (await tasks.claim_next("ann")).owner == "ann"


@pytest.mark.promise("B6")
async def test_what_a_stranger_drops_in_is_claimed_wherever_its_number_lies(tasks):
    await tasks.create("a", "", by="ann")
    assert (await tasks.claim_next("ann")).id == "1" and await tasks.claim_next("ann") is None
    new(tasks, 950)
    assert (await tasks.claim_next("ann")).id == "950"
    new(tasks, 17)
    assert (await tasks.claim_next("ann")).id == "17"


@pytest.mark.promise("B6")
async def test_another_view_sees_completion_release_and_deletion_without_being_told(tasks, view):
    other = view()
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    await tasks.create("c", "", by="ann")
    await tasks.update("1", by="ann", status="in_progress")
    assert (await other.claim_next("bob")).id == "3"
    await tasks.update("1", by="ann", status="completed")
    await tasks.create("d", "", by="ann")
    assert (await other.claim_next("bob")).id == "2"
    await tasks.create("e", "", by="ann", blocked_by=["4"])
    await tasks.update("4", by="ann", status="deleted")
    assert (await other.claim_next("bob")).id == "5"
    await tasks.release("bob")
    assert (await other.claim_next("bob")).id == "2"


@pytest.mark.promise("B6")
async def test_a_lower_task_that_another_just_freed_is_taken_before_a_higher_one(tasks, view):
    other = view()
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    for _ in range(2):
        await tasks.create("c", "", by="ann")
    await tasks.update("1", by="ann", status="in_progress")
    assert len(await other.all()) == 4
    await tasks.update("1", by="ann", status="completed")
    assert (await other.claim_next("bob")).id == "2"


@pytest.mark.promise("F14", "P2")
async def test_a_stale_view_never_claims_what_a_stranger_has_or_what_waits_again(tasks, view):
    other = view()
    for n in (1, 2, 3):
        new(tasks, n)
    assert len(await other.all()) == 3
    put(tasks, 1, owner="zed", status="in_progress")
    put(tasks, 2, blockedBy=["1"])
    assert (await other.claim_next("bob")).id == "3"
    put(tasks, 1, status="completed")
    assert (await other.claim_next("bob")).id == "2"


@pytest.mark.promise("B5", "P2")
async def test_an_owner_notices_that_an_unlocked_stranger_took_its_task(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.update("1", by="ann", status="in_progress")
    put(tasks, 1, owner="zed")
    with pytest.raises(TaskRefused, match="belongs to zed"):
        await tasks.update("1", by="ann", status="completed")
    (tasks.store.directory / "1.json").unlink()
    with pytest.raises(TaskRefused):
        await tasks.update("1", by="ann", status="completed")


@pytest.mark.promise("F14", "B5", "P2")
async def test_a_new_owner_is_noticed_under_the_lock_even_where_the_file_looks_the_same_from_outside(tasks):
    """Same size, same inode, and written within one tick of the file clock."""
    await tasks.create("a", "", by="ann")
    await tasks.update("1", by="ann", status="in_progress")
    file = tasks.store.directory / "1.json"
    before = file.stat()
    await tasks.all()
    with file.open("r+b") as same:
        content = same.read().replace(b'"ann"', b'"zed"')
        same.seek(0)
        same.write(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(TaskRefused, match="belongs to zed"):
        await tasks.update("1", by="ann", status="completed")


@pytest.mark.promise("F18")
async def test_a_file_that_is_just_being_rewritten_is_waited_for(tasks, monkeypatch):
    new(tasks, 1)
    file = tasks.store.directory / "1.json"
    whole, waits = file.read_text(), []

    def finish_writing(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            file.write_text(whole)

    monkeypatch.setattr("teamwright.tasks.task_file.time.sleep", finish_writing)
    for start in ("", whole[:20]):
        file.write_text(start)
        waits.clear()
        assert (await tasks.get("1")).subject == "s1"
        assert waits == [0.002] * 3
    file.write_text("")
    waits.clear()
    assert (await tasks.update("1", by="ann", status="in_progress")).task.owner == "ann"


@pytest.mark.promise("F13")
async def test_a_task_of_a_stranger_is_never_overwritten_though_nobody_looked_meanwhile(tasks):
    for n in range(1, 301):
        new(tasks, n)
    assert len(await tasks.all()) == 300
    new(tasks, 301, subject="theirs")
    assert (await tasks.create("ours", "", by="ann")).id == "302"
    assert (await tasks.get("301")).subject == "theirs"


@pytest.mark.promise("F18", "F17")
async def test_a_file_that_stays_cut_shows_as_it_was_and_holds_back_what_waits_for_it(tasks, view):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    assert len(await tasks.all()) == 2
    (tasks.store.directory / "1.json").write_bytes(b"")
    assert [t.id for t in await tasks.all()] == ["1", "2"]
    newcomer = view()
    assert [t.id for t in await newcomer.all()] == ["2"]
    with pytest.raises(TaskRefused, match="waits for #1"):
        await newcomer.update("2", by="bob", status="in_progress")
    assert await newcomer.claim_next("bob") is None
    assert (await newcomer.create("c", "", by="bob")).id == "3"


@pytest.mark.promise("F18", "P5")
@pytest.mark.parametrize("torn", [b"", b'{"id": "1", "subj'])
async def test_a_torn_file_is_set_aside_and_put_back_as_it_was_last_seen_by_whoever_changes_the_task(tasks, view, torn):
    await tasks.create("a", "all of it", by="ann", metadata={"k": 1})
    file = tasks.store.directory / "1.json"
    file.write_bytes(torn)
    stranger_to_it = view()
    with pytest.raises(StorageError) as caught:
        await stranger_to_it.update("1", by="bob", status="in_progress")
    assert caught.value.slug == "damaged-file" and file.read_bytes() == torn
    assert (await tasks.update("1", by="ann", status="in_progress")).task.description == "all of it"
    whole = json.loads(file.read_bytes())
    assert (whole["owner"], whole["status"], whole["metadata"]) == ("ann", "in_progress", {"k": 1})
    assert [copy.read_bytes() for copy in tasks.store.directory.glob("1.json.bad.*")] == [torn]
    assert (await stranger_to_it.get("1")).owner == "ann" and [t.id for t in await view().all()] == ["1"]


@pytest.mark.promise("F14")
async def test_a_claimer_passes_by_a_task_that_a_stranger_has_locked(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann")
    (tasks.store.directory / "1.json.lock").mkdir()
    with anyio.fail_after(3):
        assert (await tasks.claim_next("bob")).id == "2"
    (tasks.store.directory / "1.json.lock").rmdir()
    assert (await tasks.claim_next("bob")).id == "1"


async def test_a_held_lock_is_waited_for_and_then_told_with_nothing_changed(tasks, home):
    await tasks.create("a", "", by="ann")
    file = tasks.store.directory / "1.json"
    before = file.read_bytes()
    (tasks.store.directory / "1.json.lock").mkdir()
    lock = lock_for(file, home.guard(file))
    lock.wait_s = 0.05
    with pytest.raises(LockTimeout):
        await tasks.update("1", by="ann", status="in_progress")
    assert file.read_bytes() == before


@pytest.mark.promise("B5", "P2")
async def test_members_of_one_process_that_claim_at_once_get_a_task_each(tasks, view):
    for n in range(12):
        await tasks.create(f"t{n}", "", by="ann")
    lists = [view() for _ in range(3)]
    async with asyncio.timeout(WAIT_S):
        won = await asyncio.gather(*(lists[n % 3].claim_next(f"m{n}") for n in range(14)))
    assert sorted(int(t.id) for t in won if t) == list(range(1, 13))
    assert len({t.owner for t in won if t}) == 12


@pytest.mark.promise("B1")
async def test_a_steady_claim_does_not_list_the_directory(tasks, monkeypatch):
    for n in range(300):
        new(tasks, n + 1)
    assert (await tasks.claim_next("ann")).id == "1"
    listings = []
    with monkeypatch.context() as patch:
        patch.setattr("teamwright.tasks.task_file.os.scandir", lambda place: listings.append(place) or 1 / 0)
        for n in range(2, 12):
            task = await tasks.claim_next("ann")
            assert task.id == str(n)
            await tasks.update(task.id, by="ann", status="completed")
    assert listings == []


async def test_an_emptied_file_of_a_completed_task_is_damaged_and_restored_by_the_next_change(tasks):
    await tasks.create("a", "all of it", by="ann")
    await tasks.update("1", by="ann", status="completed")
    (tasks.store.directory / "1.json").write_bytes(b"")
    with pytest.raises(StorageError, match="not a whole task: it is empty"):
        await tasks.get("1")
    await tasks.update("1", by="ann", subject="b")
    assert [copy.read_bytes() for copy in tasks.store.directory.glob("1.json.bad.*")] == [b""]
    assert (await tasks.get("1")).description == "all of it"
