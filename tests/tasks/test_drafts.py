"""Drafts: an idle member claims a task only when its creator has finished describing it."""

import json

import pytest

from teamwright.protocol.task import DRAFT_MS
from teamwright.tasks import draft_tasks

pytestmark = pytest.mark.finding("T1")


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves, in ms."""

    class Clock:
        now = 1_000_000

    monkeypatch.setattr(draft_tasks, "now_ms", lambda: Clock.now)
    return Clock


async def test_an_idle_member_claims_a_draft_when_the_turn_of_its_creator_has_ended(view):
    lead, member = view(), view()
    await lead.create("one", "", by="team-lead", draft=True)
    assert await member.claim_next("ada") is None and member.next_claim_at > 0
    await lead.finish_drafts("team-lead")
    claimed = await member.claim_next("ada")
    assert claimed is not None and claimed.id == "1" and claimed.draft is None and member.next_claim_at == 0


async def test_a_draft_of_a_creator_that_was_killed_is_claimed_5_s_after_its_last_change_of_the_list(view, clock):
    lead, member = view(), view()
    await lead.create("one", "", by="team-lead", draft=True)
    await lead.create("two", "", by="team-lead", draft=True)
    clock.now += DRAFT_MS - 1
    await lead.update("2", by="team-lead", lead=True, description="more")
    clock.now += DRAFT_MS - 1
    assert await member.claim_next("ada") is None
    assert member.next_claim_at == clock.now + 1
    clock.now += 1
    assert [(await member.claim_next("ada")).id for _ in range(2)] == ["1", "2"]


async def test_a_change_of_a_task_that_is_no_draft_counts_as_a_change_of_the_list(view, clock):
    lead, member = view(), view()
    await lead.create("old", "", by="user")
    await lead.create("new", "", by="team-lead", draft=True)
    assert (await member.claim_next("ada")).id == "1"
    clock.now += DRAFT_MS - 1
    await lead.update("1", by="team-lead", lead=True, description="more")
    clock.now += DRAFT_MS - 1
    assert await member.claim_next("bob") is None


async def test_changes_by_others_do_not_hold_a_draft_back(view, clock):
    lead, member = view(), view()
    await lead.create("one", "", by="team-lead", draft=True)
    clock.now += DRAFT_MS - 1
    await member.update("1", by="ada", description="a remark")
    await member.create("hers", "", by="ada", draft=True)
    clock.now += 1
    assert (await view().claim_next("bob")).id == "1"


async def test_a_creator_that_says_ready_lets_that_task_alone_be_claimed(view):
    lead, member = view(), view()
    for subject in ("one", "two"):
        await lead.create(subject, "", by="team-lead", draft=True)
    await lead.update("2", by="team-lead", lead=True, ready=True)
    assert (await member.claim_next("ada")).id == "2" and await member.claim_next("ada") is None


async def test_a_member_that_knows_the_number_starts_a_draft_at_once(view):
    lead, member = view(), view()
    await lead.create("one", "", by="team-lead", draft=True)
    change = await member.update("1", by="ada", status="in_progress")
    assert change.task.owner == "ada" and change.task.draft is None and "metadata" not in change.changed


async def test_a_note_from_a_clock_that_was_ahead_holds_nothing_back(view, clock):
    lead = view()
    clock.now += 3_600_000
    await lead.create("one", "", by="team-lead", draft=True)
    clock.now -= 3_600_000
    assert (await view().claim_next("ada")).id == "1"


async def test_only_the_runtime_writes_the_note(view, tasks):
    await tasks.create("one", "", by="ada", metadata={"draft": {"by": "ada", "until": 1}, "k": 1})
    await tasks.update("1", by="ada", metadata={"draft": {"by": "ada", "until": 9e15}})
    assert dict((await tasks.get("1")).metadata) == {"k": 1}


@pytest.mark.parametrize("note", [None, 7, "x", [], {}, {"by": 1, "until": 2}, {"by": "a"}, {"by": "a", "until": True}])
async def test_a_note_that_is_none_holds_nothing_back(view, tasks, note):
    await tasks.create("one", "", by="user")
    path = tasks.store.files.path("1")
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata": {"draft": note}}))
    assert (await view().claim_next("ada")).id == "1"


async def test_where_another_program_leads_a_task_is_claimed_2_s_after_the_last_change_of_its_file(view, clock):
    lead, member = view(), view()
    await lead.create("one", "", by="team-lead")
    changed = int(lead.store.files.path("1").stat().st_mtime_ns // 1_000_000)
    clock.now = changed + 1_999
    assert await member.claim_next("ada", settle_ms=2_000) is None
    assert member.next_claim_at == changed + 2_000
    clock.now = changed + 2_000
    assert (await member.claim_next("ada", settle_ms=2_000)).id == "1"


async def test_an_owner_and_blockers_are_set_when_the_task_is_created(view):
    lead, member = view(), view()
    await lead.create("one", "", by="team-lead", owner="bob")
    await lead.create("two", "", by="team-lead", blocked_by=["1"])
    assert [t.owner for t in await lead.all()] == ["bob", None]
    assert await member.claim_next("ada") is None
