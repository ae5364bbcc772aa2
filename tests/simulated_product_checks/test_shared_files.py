"""Strangers of two versions on our files, each a process that imports nothing of ours: what we promised holds."""

import json
import os
from collections import Counter

import pytest

from teamwright.mail.inbox import Inbox
from teamwright.protocol.errors import LockTimeout, StorageError
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.protocol.task import TaskStatus
from teamwright.storage.locks import lock_for
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.roster import Roster, RosterFile
from tests.support.waits import WAIT_S


def said(process):
    """All its lines, as words, once it ended well."""
    out, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    return [line.split() for line in out.splitlines()]


def texts_of(entries, sender):
    return [e["text"] for e in entries if e["from"] == sender]


# ── inboxes ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "bob.json"
    made.write_text("[]")
    return made


@pytest.fixture
def bob(tmp_path, path):
    return lambda **more: Inbox(path, tmp_path / "guards" / "bob.json", tmp_path / "archive.jsonl", **more)


@pytest.mark.promise("P1", "F03", "F04", "C3")
@pytest.mark.slow
def test_beside_strangers_that_write_in_place_and_wait_for_no_lock_nothing_is_lost_and_no_look_sees_half(
    tmp_path, path, ours, stranger
):
    watcher = ours("watch", tmp_path, 240)
    senders = [ours("send", tmp_path, f"ours{n}", 120) for n in range(2)]
    theirs = [stranger("older.py", "send", path, f"zed{n}", 200) for n in range(2)]
    for process in senders:
        assert len(said(process)) == 120
    claimed = {f"zed{n}": [text for word, text in said(process) if word == "sent"] for n, process in enumerate(theirs)}
    entries = json.loads(path.read_bytes())
    for n in range(2):
        assert texts_of(entries, f"ours{n}") == [str(i) for i in range(120)]
        assert texts_of(entries, f"zed{n}") == claimed[f"zed{n}"]
    assert said(watcher) == [["saw", "all"]]
    assert not list(tmp_path.glob("*.bad.*"))


@pytest.mark.promise("P1", "F03", "F05", "C3")
@pytest.mark.slow
def test_a_stranger_that_renames_and_removes_what_it_consumed_gets_each_message_once_and_unchanged(
    tmp_path, path, ours, stranger
):
    senders = [ours("send", tmp_path, f"ours{n}", 120) for n in range(2)]
    processes = [*senders, stranger("newer.py", "consume", path, tmp_path / "seen", 200)]
    for process in processes:
        said(process)
    consumed = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    left = json.loads(path.read_bytes())
    for n in range(2):
        assert texts_of(consumed + left, f"ours{n}") == [str(i) for i in range(120)]
    assert all({"timestamp", "msg_id", "read"} <= entry.keys() for entry in consumed)
    assert max(Counter(e["msg_id"] for e in consumed + left).values()) == 1


@pytest.mark.promise("P7", "C3", "C4", "C9")
@pytest.mark.slow
async def test_keys_and_types_that_we_do_not_know_go_through_flags_archive_and_rewrites_unchanged(
    tmp_path, path, bob, stranger
):
    assert [words[0] for words in said(stranger("newer.py", "send", path, "zed", 160))] == ["sent"] * 160
    before = {e["msg_id"]: e for e in json.loads(path.read_bytes())}
    inbox = bob()
    await inbox.put(InboxEntry("ann", "ours, in the middle"))
    entries = await inbox.unread()
    assert json.loads(entries[0].text)["type"] == "weather_report"
    await inbox.mark_delivered([entry.msg_id for entry in entries])
    archived = [json.loads(line) for line in (tmp_path / "archive.jsonl").read_bytes().splitlines()]
    after = {e["msg_id"]: e for e in archived + json.loads(path.read_bytes())}
    assert len(after) == 161
    for msg_id, entry in before.items():
        assert list(after[msg_id].items()) == [*(entry | {"read": True}).items()]


@pytest.mark.promise("F04", "F29", "C3")
async def test_after_a_stranger_that_died_writing_every_whole_entry_is_saved_and_a_copy_kept(path, bob, stranger):
    told = []
    for n in range(6):
        await bob().put(InboxEntry("ann", f"{n}"))
    assert said(stranger("older.py", "die_while_sending", path)) == [["dead"]]
    torn = path.read_bytes()
    with pytest.raises(ValueError):
        json.loads(torn)
    lock = path.with_name("bob.json.lock")
    os.utime(lock, (lock.stat().st_mtime - 11,) * 2)
    inbox = bob(on_damage=lambda *facts: told.append(facts))
    saved = [entry.text for entry in await inbox.unread()]
    assert saved == [str(n) for n in range(len(saved))] and len(saved) >= 4
    ((where, copy, count),) = told
    assert (where, copy.read_bytes(), count) == (path, torn, len(saved))
    await inbox.put(InboxEntry("ann", "and on"))
    assert [entry.text for entry in await bob().unread()] == [*saved, "and on"]


@pytest.mark.promise("F03", "F29")
async def test_a_stranger_that_holds_a_lock_is_named_with_path_and_age_and_when_it_leaves_it_behind_the_next_gets_in(
    tmp_path, path, bob, stranger
):
    holder = stranger("newer.py", "hold", path)
    assert holder.stdout.readline() == "inside\n"
    lock = lock_for(path, tmp_path / "guards" / "bob.json")
    lock.wait_s = 0.1
    with pytest.raises(LockTimeout) as problem:
        await bob().put(InboxEntry("ann", "x"))
    assert str(path) + ".lock" in problem.value.render() and "0." in dict(problem.value.looked_at)["age"]
    assert path.read_text() == "[]"
    holder.stdin.write("leave\n")
    holder.stdin.flush()
    assert holder.wait(WAIT_S) == 0
    left = path.with_name("bob.json.lock")
    os.utime(left, (left.stat().st_mtime - 11,) * 2)
    await bob().put(InboxEntry("ann", "x"))
    assert [e["text"] for e in json.loads(path.read_bytes())] == ["x"]
    assert not left.exists()


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def home(tmp_path):
    return Home.at(tmp_path / "home")


@pytest.fixture
def tasks(home):
    return TaskList(FileTaskStore(home.tasks("demo"), home.guard))


@pytest.mark.promise("P2", "F14", "F18", "B1", "B5", "B6")
@pytest.mark.slow
async def test_beside_a_stranger_that_overwrites_owners_without_a_lock_ours_do_no_task_twice_and_give_way(
    home, tasks, ours, stranger
):
    """It changes the even ones only: odd ones are done once; of even ones no two of ours say that they did them."""
    for n in range(1, 31):
        await tasks.create(f"t{n}", "", by="ann", metadata={"n": n})
    even = ",".join(str(n) for n in range(2, 31, 2))
    theirs = stranger("older.py", "change_tasks", tasks.store.directory, even, 400, 1)
    workers = [ours("drain", home.shared, f"w{k}") for k in range(2)]
    words = [line for worker in workers for line in said(worker)]
    said(theirs)
    done = Counter(id for word, id in words if word == "done")
    assert {id: count for id, count in done.items() if int(id) % 2} == {str(n): 1 for n in range(1, 31, 2)}
    everything = {t.id: t for t in await TaskList(FileTaskStore(home.tasks("demo"), home.guard)).all()}
    assert sorted(map(int, everything)) == list(range(1, 31))
    assert all(t.metadata == {"n": int(id)} for id, t in everything.items())
    for id in everything:
        if int(id) % 2:
            assert everything[id].status is TaskStatus.COMPLETED and everything[id].owner in {"w0", "w1"}


@pytest.mark.promise("F13", "B1")
async def test_numbers_are_never_shared_with_a_stranger_that_creates_at_the_same_time(home, tasks, ours, stranger):
    await tasks.create("the first", "", by="ann")
    theirs = [stranger("older.py", "create_tasks", tasks.store.directory, 30) for _ in range(2)]
    mine = [await tasks.create(f"ours {n}", "", by="ann") for n in range(30)]
    foreign = [id for process in theirs for (id,) in said(process)]
    numbers = [t.id for t in mine] + foreign
    assert len(set(numbers)) == 90
    everything = await TaskList(FileTaskStore(home.tasks("demo"), home.guard)).all(internal=True)
    assert len(everything) == 91
    assert {t.id for t in everything if t.subject.startswith("ours")} == {t.id for t in mine}
    assert len(await tasks.all()) == 91 - 20


@pytest.mark.promise("B1", "B2")
async def test_keys_that_a_stranger_adds_to_tasks_survive_our_changes_at_the_same_time(home, tasks, stranger):
    for n in range(4):
        await tasks.create(f"t{n}", "", by="ann")
    theirs = stranger("newer.py", "change_tasks", tasks.store.directory, "1,2,3,4", 25)
    for n in range(25):
        for id in ("1", "2", "3", "4"):
            await tasks.update(id, by="ann", metadata={"ours": n})
    said(theirs)
    for id in ("1", "2", "3", "4"):
        data = json.loads((tasks.store.directory / f"{id}.json").read_bytes())
        assert (data["theirs"], data["metadata"]) == ({"n": 24}, {"ours": 24})


# ── the roster ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F26", "A3", "A4")
async def test_members_that_a_stranger_clobbered_out_of_the_roster_are_noticed_and_put_back(home, stranger):
    """It reads, changes and writes without a lock, so ours can vanish: whoever looks sees it, and adds them again."""
    roster = Roster(RosterFile(home, "demo"))
    lead = RosterMember("team-lead@demo", "team-lead", joined_at=1)
    extra = {"leadProcess": {"pid": 7}}
    roster.document.create(TeamConfig("demo", lead.agent_id, "s", 1, None, (lead,), extra=extra))
    theirs = stranger("older.py", "join", roster.document.path, "zed", 300)
    joined = []

    async def join_and_put_back():
        if len(joined) < 12:
            joined.append(await roster.join(RosterMember("", f"m{len(joined)}")))
        there = await roster.read()
        for member in joined:
            if there.find(member.name) is None:
                await roster.add(member)

    while theirs.poll() is None or len(joined) < 12:
        try:
            await join_and_put_back()
        except StorageError as problem:
            assert problem.slug == "damaged-file"  # it was writing all the while: an error, and never "no team"
        theirs.stdout.readline()
    said(theirs)
    await join_and_put_back()
    config = await Roster(RosterFile(home, "demo")).read()
    assert {m.name for m in config.members} == {"team-lead", "zed", *(f"m{n}" for n in range(12))}
    assert config.extra == extra
    assert config.find("zed").is_active is not None
