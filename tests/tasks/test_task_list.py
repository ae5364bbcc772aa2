"""The task list in one process: files as observed, the graph, who may do what."""

import json

import pytest

from teamwright.protocol.errors import InvalidName, StorageError, TaskRefused, UsageError
from teamwright.protocol.task import TaskStatus

KEYS = ["id", "subject", "description", "activeForm", "owner", "status", "blocks", "blockedBy", "metadata"]
TIMES = ["createdAt", "updatedAt"]


def on_disk(tasks, id):
    return json.loads((tasks.store.directory / f"{id}.json").read_bytes())


async def refused(code, call):
    with pytest.raises(TaskRefused) as caught:
        await call
    assert caught.value.code == code
    return caught.value.what


@pytest.mark.promise("B1", "B2")
async def test_a_new_task_is_a_file_with_the_observed_keys_in_order(tasks):
    task = await tasks.create("Fix\n it", "all of it", by="ann", active_form="Fixing", metadata={"k": 1, "z": None})
    await tasks.update(task.id, by="ann", owner="ann")
    raw = (tasks.store.directory / "1.json").read_text()
    assert list(json.loads(raw)) == KEYS + TIMES
    assert raw.startswith('{\n  "id": "1",\n  "subject": "Fix it",') and not raw.endswith("\n")
    assert on_disk(tasks, 1)["metadata"] == {"k": 1, "z": None}
    assert (tasks.store.directory / ".lock").read_bytes() == b"" and not (tasks.store.directory / ".lock.lock").exists()


@pytest.mark.promise("B1")
async def test_what_was_not_given_is_not_in_the_file(tasks):
    await tasks.create("a", "", by="ann")
    assert list(on_disk(tasks, 1)) == ["id", "subject", "description", "status", "blocks", "blockedBy", *TIMES]


async def test_a_task_without_a_subject_is_refused(tasks):
    with pytest.raises(UsageError):
        await tasks.create("  \n ", "x", by="ann")
    assert await tasks.all() == []


async def test_a_list_that_was_never_used_is_empty_and_makes_no_directory(tasks):
    assert await tasks.all() == [] and await tasks.get("1") is None
    assert await tasks.claim_next("ann") is None and await tasks.release("ann") == []
    assert not tasks.store.directory.exists()


@pytest.mark.promise("B1")
async def test_tasks_are_listed_in_numeric_order_without_book_keeping_of_others(tasks):
    for n in range(11):
        await tasks.create(f"t{n}", "", by="ann")
    await tasks.update("2", by="ann", metadata={"_internal": True})
    assert [t.id for t in await tasks.all()] == ["1", *map(str, range(3, 12))]
    assert len(await tasks.all(internal=True)) == 11


@pytest.mark.promise("B1", "F13")
@pytest.mark.parametrize("mark", [None, "", "garbage", "-5", "0"])
async def test_numbers_are_never_given_twice_whatever_became_of_the_watermark(view, mark):
    tasks = view()
    for n in range(3):
        await tasks.create(f"t{n}", "", by="ann")
    await tasks.update("3", by="ann", status="deleted")
    assert (tasks.store.directory / ".highwatermark").read_text() == "3"
    if mark is None:
        (tasks.store.directory / ".highwatermark").unlink()
    else:
        (tasks.store.directory / ".highwatermark").write_text(mark)
    assert (await view().create("next", "", by="ann")).id == "4"


@pytest.mark.promise("B1", "F13")
async def test_the_next_number_is_behind_the_highest_file_and_the_watermark_of_another(tasks):
    await tasks.create("a", "", by="ann")
    (tasks.store.directory / "71.json").write_bytes((tasks.store.directory / "1.json").read_bytes())
    assert (await tasks.create("b", "", by="ann")).id == "72"
    (tasks.store.directory / ".highwatermark").write_text("90\n")
    assert (await tasks.create("c", "", by="ann")).id == "91"


@pytest.mark.promise("B2")
async def test_metadata_is_merged_and_null_deletes(tasks):
    await tasks.create("a", "", by="ann", metadata={"a": 1, "b": 2})
    change = await tasks.update("1", by="ann", metadata={"b": None, "c": 3})
    assert change.changed == ("metadata",) and on_disk(tasks, 1)["metadata"] == {"a": 1, "c": 3}
    await tasks.update("1", by="ann", metadata={"a": None, "c": None})
    assert "metadata" not in on_disk(tasks, 1)


@pytest.mark.promise("B2")
async def test_a_task_goes_from_pending_over_in_progress_to_completed_and_back(tasks, told):
    await tasks.create("a", "", by="ann")
    assert (await tasks.update("1", by="ann", status="in_progress")).changed == ("owner", "status")
    assert (await tasks.update("1", by="ann", status="completed")).changed == ("status",)
    assert (await tasks.update("1", by="bob", status="pending")).changed == ("status",)
    assert [c for _, c, _ in told] == ["created", "claimed", "completed", "updated"]


async def test_an_update_that_changes_nothing_writes_nothing(tasks, told):
    await tasks.create("a", "b", by="ann")
    before = (tasks.store.directory / "1.json").stat().st_ino
    change = await tasks.update("1", by="ann", subject="a", description="b", status="pending")
    assert change.changed == () and (tasks.store.directory / "1.json").stat().st_ino == before
    assert [c for _, c, _ in told] == ["created"]


async def test_all_fields_are_told_in_the_order_of_the_other_side(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann")
    change = await tasks.update(
        "2",
        by="lead",
        lead=True,
        subject="x",
        description="y",
        active_form="z",
        owner="ann",
        metadata={"k": 1},
        status="in_progress",
        add_blocks=["1"],
    )
    assert change.changed == ("subject", "description", "activeForm", "owner", "metadata", "status", "blocks")


async def test_what_others_wrote_into_a_task_stays(tasks):
    await tasks.create("a", "", by="ann")
    path = tasks.store.directory / "1.json"
    path.write_text(json.dumps({**on_disk(tasks, 1), "color": "red", "nested": {"x": [1]}}))
    await tasks.update("1", by="ann", status="in_progress")
    assert on_disk(tasks, 1)["color"] == "red" and on_disk(tasks, 1)["nested"] == {"x": [1]}


async def test_an_unknown_status_and_an_impossible_number_are_told(tasks):
    await tasks.create("a", "", by="ann")
    with pytest.raises(UsageError, match="done"):
        await tasks.update("1", by="ann", status="done")
    for bad in ("../1", "0", "-1", "1.5", "", "99999999999"):
        with pytest.raises(InvalidName):
            await tasks.update(bad, by="ann", status="completed")
    assert (await tasks.get(" #1 ")).id == "1"


# ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("B3", "F17", "P2")
async def test_an_edge_is_on_both_sides(tasks):
    for n in range(3):
        await tasks.create(f"t{n}", "", by="ann")
    change = await tasks.update("2", by="ann", add_blocked_by=["1"], add_blocks=["3"])
    assert change.changed == ("blocks", "blockedBy")
    assert on_disk(tasks, 1)["blocks"] == ["2"] and on_disk(tasks, 3)["blockedBy"] == ["2"]
    assert on_disk(tasks, 2)["blocks"] == ["3"] and on_disk(tasks, 2)["blockedBy"] == ["1"]


@pytest.mark.promise("B3")
async def test_a_task_can_be_born_waiting(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    assert on_disk(tasks, 1)["blocks"] == ["2"] and on_disk(tasks, 2)["blockedBy"] == ["1"]
    assert await refused("task_not_found", tasks.create("c", "", by="ann", blocked_by=["9"])) == "there is no task #9"
    assert len(await tasks.all()) == 2


@pytest.mark.promise("B3", "F17")
async def test_a_bad_edge_changes_nothing_at_all(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    before = {p.name: p.read_bytes() for p in tasks.store.directory.glob("*.json")}
    what = await refused("cycle", tasks.update("1", by="ann", subject="new", add_blocked_by=["2"]))
    assert "#1 → #2 → #1" in what
    await refused("cycle", tasks.update("2", by="ann", subject="new", add_blocks=["1"]))
    await refused("self_edge", tasks.update("1", by="ann", subject="new", add_blocks=["1"]))
    await refused("task_not_found", tasks.update("1", by="ann", subject="new", add_blocks=["7"]))
    await refused("task_not_found", tasks.update("7", by="ann", subject="new", add_blocks=["1"]))
    assert before == {p.name: p.read_bytes() for p in tasks.store.directory.glob("*.json")}


@pytest.mark.promise("F17")
async def test_a_refused_claim_adds_no_edge(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann")
    what = await refused("blocked", tasks.update("2", by="ann", status="in_progress", add_blocked_by=["1"]))
    assert "#1" in what and on_disk(tasks, 1)["blocks"] == [] and on_disk(tasks, 2)["blockedBy"] == []


@pytest.mark.promise("B3", "F17")
async def test_blocked_is_derived_and_completion_touches_no_other_file(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    assert (await tasks.get_with_blockers("2"))[1] == ["1"]
    before = (tasks.store.directory / "2.json").stat()
    change = await tasks.update("1", by="ann", status="completed")
    assert [t.id for t in change.unblocked] == ["2"]
    assert (tasks.store.directory / "2.json").stat() == before and on_disk(tasks, 2)["blockedBy"] == ["1"]
    assert (await tasks.get_with_blockers("2"))[1] == []


@pytest.mark.promise("F17", "B5", "P2")
@pytest.mark.parametrize("lead", [True, False])
async def test_neither_start_nor_completion_passes_an_open_blocker(tasks, lead):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    assert await refused("blocked", tasks.update("2", by="ann", lead=lead, status="in_progress")) == "#2 waits for #1"
    await refused("blocked", tasks.update("2", by="ann", lead=lead, status="completed"))
    await refused("blocked", tasks.update("2", by="ann", status="in_progress"))


@pytest.mark.promise("F17")
async def test_what_got_a_blocker_later_cannot_be_completed_before_it(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann")
    await tasks.update("2", by="ann", status="in_progress")
    await tasks.update("2", by="ann", add_blocked_by=["1"])
    await refused("blocked", tasks.update("2", by="ann", status="completed"))
    await tasks.update("1", by="ann", status="completed")
    await tasks.update("2", by="ann", status="completed")


@pytest.mark.promise("B3", "B2")
async def test_deletion_cleans_both_sides_and_frees_what_waited(tasks, told):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann", blocked_by=["1"])
    await tasks.create("c", "", by="ann", blocked_by=["2"])
    change = await tasks.update("2", by="ann", status="deleted")
    assert change.changed == ("deleted",) and [t.id for t in change.unblocked] == ["3"]
    assert on_disk(tasks, 1)["blocks"] == [] and on_disk(tasks, 3)["blockedBy"] == []
    assert not (tasks.store.directory / "2.json").exists() and ("2", "deleted", "ann") in told
    await refused("task_not_found", tasks.update("2", by="ann", status="deleted"))


# ── owners ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("B4")
async def test_a_new_owner_is_to_be_told_but_not_one_that_took_it(tasks):
    await tasks.create("a", "", by="team-lead")
    assert (await tasks.update("1", by="team-lead", lead=True, owner="bob@demo")).assigned == "bob"
    assert on_disk(tasks, 1)["owner"] == "bob" and on_disk(tasks, 1)["status"] == "pending"
    await tasks.create("b", "", by="team-lead")
    assert (await tasks.update("2", by="bob", owner="bob")).assigned is None


@pytest.mark.promise("B2", "B5", "F16")
async def test_a_member_that_completes_a_free_task_is_its_owner(tasks):
    await tasks.create("handed back while its owner was away", "", by="team-lead")
    await tasks.update("1", by="ann", status="in_progress")
    await tasks.release("ann")
    assert (await tasks.update("1", by="ann", status="completed")).changed == ("owner", "status")
    assert await refused("already_resolved", tasks.update("1", by="bob", status="completed")) == (
        "#1 was completed by ann"
    )
    await tasks.create("completed by the lead", "", by="team-lead")
    assert (await tasks.update("2", by="team-lead", lead=True, status="completed")).changed == ("status",)
    assert (await tasks.update("2", by="ann", status="completed")).changed == ()
    await tasks.create("for another", "", by="team-lead", metadata={"for": ["bob"]})
    await refused("reserved", tasks.update("3", by="ann", status="completed"))


@pytest.mark.promise("B5", "P2")
async def test_a_member_cannot_take_what_another_has_by_any_path(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.update("1", by="ann", status="in_progress")
    for call in (
        tasks.update("1", by="bob", status="in_progress"),
        tasks.update("1", by="bob", owner="bob"),
        tasks.update("1", by="bob", status="in_progress", owner="bob"),
        tasks.update("1", by="bob", owner=""),
        tasks.update("1", by="bob", status="completed"),
        tasks.update("1", by="bob", status="deleted"),
    ):
        assert await refused("already_claimed", call) == "#1 belongs to ann"
    assert (await tasks.get("1")).owner == "ann"
    await tasks.update("1", by="bob", description="a hint")


@pytest.mark.promise("B5")
async def test_the_owner_may_claim_again_and_the_lead_may_reassign(tasks, told):
    await tasks.create("a", "", by="ann")
    first = await tasks.update("1", by="ann", status="in_progress")
    again = await tasks.update("1", by="ann", status="in_progress")
    assert again.task == first.task and again.changed == ()
    assert (await tasks.update("1", by="ann", owner="Ann", status="in_progress")).changed == ()
    assert (await tasks.update("1", by="team-lead", lead=True, owner="bob")).assigned == "bob"
    assert [c for _, c, _ in told] == ["created", "claimed", "assigned"]
    await refused("already_claimed", tasks.update("1", by="ann", status="in_progress"))


@pytest.mark.promise("B5")
async def test_who_starts_what_another_has_in_progress_hears_whose_it_is(tasks):
    await tasks.create("a", "b", by="team-lead")
    await tasks.update("1", by="ann", status="in_progress")
    assert await refused("already_claimed", tasks.update("1", by="bob", status="in_progress")) == "#1 belongs to ann"
    assert (await tasks.update("1", by="ann", status="in_progress")).changed == ()
    assert (await tasks.update("1", by="team-lead", lead=True, status="in_progress")).changed == ()


@pytest.mark.promise("B5")
async def test_what_is_completed_cannot_be_claimed(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.update("1", by="ann", status="completed")
    await refused("already_resolved", tasks.update("1", by="bob", status="in_progress"))
    await refused("already_resolved", tasks.update("1", by="bob", status="in_progress"))
    await refused("task_not_found", tasks.update("2", by="bob", status="in_progress"))


async def test_the_lead_starts_a_task_without_becoming_its_owner(tasks):
    await tasks.create("a", "", by="team-lead")
    await tasks.update("1", by="team-lead", lead=True, status="in_progress")
    assert (await tasks.get("1")).owner is None


async def test_a_member_that_only_writes_into_a_started_task_does_not_become_its_owner(tasks):
    await tasks.create("a", "", by="team-lead")
    await tasks.update("1", by="team-lead", lead=True, status="in_progress")
    assert (await tasks.update("1", by="ann", description="a hint")).changed == ("description",)
    assert (await tasks.get("1")).owner is None


async def test_a_task_that_loses_its_owner_is_pending_again(tasks):
    await tasks.create("a", "", by="ann")
    await tasks.update("1", by="ann", status="in_progress")
    assert (await tasks.update("1", by="ann", owner="")).changed == ("owner", "status")
    assert (await tasks.get("1")).status is TaskStatus.PENDING


@pytest.mark.promise("B7", "F16")
async def test_open_tasks_of_one_who_is_gone_return_to_the_list(tasks, told):
    for n in range(4):
        await tasks.create(f"t{n}", "", by="ann")
    for n in "123":
        await tasks.update(n, by="Bob", status="in_progress")
    await tasks.update("4", by="bobby", status="in_progress")
    await tasks.update("2", by="Bob", status="completed")
    told.clear()
    assert [t.id for t in await tasks.release("bob")] == ["1", "3"]
    assert "owner" not in on_disk(tasks, 1) and on_disk(tasks, 1)["status"] == "pending"
    assert on_disk(tasks, 2)["owner"] == "Bob" and on_disk(tasks, 4)["owner"] == "bobby"
    assert told == [("1", "released", "system"), ("3", "released", "system")]


@pytest.mark.promise("F14", "B6")
async def test_a_free_member_gets_the_lowest_task_that_it_may_and_can_do(tasks):
    await tasks.create("blocked", "", by="ann")
    await tasks.create("for others", "", by="ann", metadata={"for": ["cyd"]})
    await tasks.create("needs a tool", "", by="ann", metadata={"needs": ["Edit"]})
    await tasks.create("owned", "", by="ann")
    await tasks.create("free", "", by="ann")
    await tasks.update("5", by="ann", add_blocks=["1"])
    await tasks.update("4", by="team-lead", lead=True, owner="ann")
    assert (await tasks.claim_next("bob", frozenset({"Read"}))).id == "5"
    assert await tasks.claim_next("bob", frozenset({"Read"})) is None
    assert (await tasks.claim_next("bob", frozenset({"Read", "Edit"}))).id == "3"
    assert (await tasks.claim_next("CYD", frozenset())).id == "2"
    await tasks.update("5", by="bob", status="completed")
    assert (await tasks.claim_next("bob", frozenset())).id == "1"


@pytest.mark.promise("F14")
async def test_a_reserved_task_is_kept_on_every_path(tasks):
    await tasks.create("a", "", by="ann", metadata={"for": "cyd"})
    for call in (
        tasks.update("1", by="bob", status="in_progress"),
        tasks.update("1", by="bob", owner="bob"),
        tasks.update("1", by="bob", status="in_progress"),
        tasks.update("1", by="cyd", owner="bob"),
    ):
        assert "cyd" in await refused("reserved", call)
    assert (await tasks.update("1", by="team-lead", lead=True, owner="bob")).assigned == "bob"


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F18", "A1")
async def test_a_reset_moves_tasks_into_the_archive_and_numbers_go_on(tasks, tmp_path):
    for n in range(3):
        await tasks.create(f"t{n}", "", by="ann")
    assert await tasks.store.archive_all(tmp_path / "old") == 3
    assert sorted(p.name for p in (tmp_path / "old").iterdir()) == ["1.json", "2.json", "3.json"]
    assert await tasks.all() == [] and (await tasks.create("next", "", by="ann")).id == "4"
    assert await tasks.claim_next("ann") is not None


@pytest.mark.promise("A2")
async def test_a_removed_list_is_in_the_archive_and_its_name_begins_at_one(tasks, view, tmp_path):
    await tasks.create("a", "", by="ann")
    await tasks.create("b", "", by="ann")
    await tasks.update("2", by="ann", status="deleted")
    assert await tasks.store.archive_and_remove(tmp_path / "old") == 1
    assert not tasks.store.directory.exists() and (tmp_path / "old" / "1.json").exists()
    assert (await view().create("again", "", by="ann")).id == "1"


@pytest.mark.promise("A6", "F18")
async def test_open_tasks_of_a_session_become_the_teams_with_their_numbers(view):
    own, team = view("session-1234abcd"), view("demo")
    await own.create("done", "", by="team-lead")
    await own.create("open", "", by="team-lead", blocked_by=["1"])
    await own.create("later", "", by="team-lead", blocked_by=["2"])
    await own.update("1", by="team-lead", lead=True, status="completed")
    assert [t.id for t in await team.store.adopt_open_tasks(own.store)] == ["2", "3"]
    assert [(t.id, t.blocked_by) for t in await team.all()] == [("2", ()), ("3", ("2",))]
    assert [t.id for t in await own.all()] == ["1"]
    assert (await team.create("next", "", by="team-lead")).id == "4"
    assert (await own.create("next", "", by="team-lead")).id == "4"


async def test_a_task_that_cannot_be_read_and_was_never_seen_whole_is_an_error_and_not_a_missing_task(tasks, view):
    await tasks.create("a", "", by="ann")
    (tasks.store.directory / "1.json").write_bytes(b'{"id": "1", "subj')
    new = view()
    for call in (
        tasks.get("1"),
        new.get("1"),
        new.update("1", by="ann", status="in_progress"),
        new.update("1", by="ann", status="completed"),
    ):
        with pytest.raises(StorageError) as caught:
            await call
        assert caught.value.slug == "damaged-file"
    assert (tasks.store.directory / "1.json").read_bytes() == b'{"id": "1", "subj'
