"""The inbox: what is sent is there, in order, once; what is consumed goes to the archive; limits are told."""

import asyncio
import json
import os
import time
from uuid import UUID

import pytest

from teamwright.mail.inbox import inbox_for, read_entries
from teamwright.mail.message_size import MAX_TEXT_BYTES
from teamwright.protocol.errors import InboxFull, LockTimeout, StorageError, UsageError
from teamwright.protocol.mail import IdleNotification, InboxEntry
from teamwright.storage.locks import lock_for
from tests.support.inboxes import count_entries
from tests.support.waits import WAIT_S


def texts(entries):
    return [entry.text for entry in entries]


def ids(entries):
    return [entry.msg_id for entry in entries]


def idle(sender, **content):
    return InboxEntry(sender, IdleNotification(sender=sender, timestamp="2026-11-20T12:00:00.000Z", **content).encode())


@pytest.mark.promise("P1", "C3")
async def test_a_send_returns_the_id_of_an_entry_that_is_in_the_file(inbox, on_disk):
    msg_id = await inbox().put(InboxEntry("alice", "hello", summary="greeting", color="blue"))
    (entry,) = on_disk()
    assert list(entry) == ["from", "text", "summary", "timestamp", "color", "msg_id", "read"]
    assert entry["msg_id"] == msg_id == str(UUID(msg_id, version=4))
    assert entry["timestamp"].endswith("Z")
    assert entry["read"] is False


async def test_an_id_and_a_time_that_are_given_are_kept(inbox, on_disk):
    assert await inbox().put(InboxEntry("alice", "x", msg_id="mine", timestamp="2026-01-01T00:00:00.000Z")) == "mine"
    assert on_disk()[0]["timestamp"] == "2026-01-01T00:00:00.000Z"


@pytest.mark.promise("P1")
async def test_what_was_sent_is_read_in_order_and_once_flagged_no_more(inbox, on_disk):
    for n in range(60):
        await inbox().put(InboxEntry("alice", f"{n} " + "x" * (n * 37 % 900)))
    entries = await inbox().unread()
    assert [text.split()[0] for text in texts(entries)] == [str(n) for n in range(60)]
    await inbox().mark_delivered(ids(entries)[:25])
    assert ids(await inbox().unread()) == ids(entries)[25:]
    assert [entry["read"] for entry in on_disk()] == [True] * 25 + [False] * 35


@pytest.mark.parametrize(
    "text", ["", "naïve ☕ 🎭", 'quotes " and \\ and \n new\u2028lines', "\x00\x1f", "half \ud800 char"]
)
async def test_any_text_comes_back_the_same_from_memory_and_from_the_file(inbox, place, text):
    await inbox().put(InboxEntry("alice", "first"))
    await inbox().unread()
    await inbox().put(InboxEntry("alice", text, extra={"priority": [1, {"deep": None}]}))
    from_memory = await inbox().unread()
    assert from_memory == read_entries(place[0])
    assert from_memory[1].text == text.encode("utf-8", "replace").decode()
    assert from_memory[1].extra == {"priority": [1, {"deep": None}]}


async def test_a_look_when_nothing_changed_touches_neither_file_nor_lock(inbox, path, monkeypatch):
    await inbox().put(InboxEntry("alice", "x"))
    first = await inbox().unread()
    path.with_name("bob.json.lock").mkdir()
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("a file was opened"))
    assert await inbox().unread() == first


async def test_a_list_that_was_handed_out_is_the_callers_own(inbox):
    await inbox().put(InboxEntry("alice", "x"))
    (await inbox().unread()).clear()
    assert len(await inbox().unread()) == 1


async def test_a_missing_inbox_is_empty_and_stays_missing(inbox, path):
    assert await inbox().unread() == []
    await inbox().mark_delivered(["nothing"])
    await inbox().mark_delivered([])
    assert read_entries(path) == []
    assert count_entries(path) == (0, 0)
    assert not path.exists()


@pytest.mark.promise("C3")
async def test_sends_of_one_process_commit_together_each_with_its_own_outcome(inbox, on_disk, monkeypatch):
    writes = []
    replace = os.rename
    monkeypatch.setattr(os, "rename", lambda a, b: (writes.append(b), replace(a, b))[1])
    box = inbox()
    async with asyncio.timeout(WAIT_S):
        sent = await asyncio.gather(*(box.put(InboxEntry("alice", f"{n}" + "x" * 500)) for n in range(100)))
    assert [entry["msg_id"] for entry in on_disk()] == sent
    assert len(writes) <= 3


@pytest.mark.promise("P1")
async def test_a_sender_that_is_cancelled_while_it_waits_takes_its_message_along_and_nobody_elses(inbox, path, on_disk):
    path.parent.mkdir()
    stranger = path.with_name("bob.json.lock")
    stranger.mkdir()
    box = inbox()
    sends = [asyncio.create_task(box.put(InboxEntry("alice", str(n)))) for n in range(4)]
    for _ in range(3):
        await asyncio.sleep(0)
    sends[0].cancel()
    sends[2].cancel()
    await asyncio.sleep(0)
    stranger.rmdir()
    async with asyncio.timeout(WAIT_S):
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [isinstance(o, asyncio.CancelledError) for o in outcomes] == [True, False, True, False]
    assert [entry["text"] for entry in on_disk()] == ["1", "3"]


@pytest.mark.promise("F03", "F29")
async def test_a_lock_that_nobody_releases_is_a_loud_error_and_nothing_is_sent(inbox, path, place):
    path.parent.mkdir()
    path.with_name("bob.json.lock").mkdir()
    lock = lock_for(place[0], place[1])
    lock.wait_s = 0.05
    with pytest.raises(LockTimeout, match="locked by another program"):
        await inbox().put(InboxEntry("alice", "x"))
    assert not path.exists()


async def test_a_text_over_256_kb_is_refused_with_advice(inbox, path):
    with pytest.raises(UsageError) as told:
        await inbox().put(InboxEntry("alice", "ä" * (MAX_TEXT_BYTES // 2 + 1)))
    assert "file" in told.value.for_model()
    assert not path.exists()
    await inbox().put(InboxEntry("alice", "ä" * (MAX_TEXT_BYTES // 2)))


@pytest.mark.promise("P6", "F10")
async def test_the_thousand_and_first_unread_message_is_refused_by_name_and_the_runtime_has_64_more(inbox, on_disk):
    box = inbox()
    outcomes = await asyncio.gather(
        *(box.put(InboxEntry("alice", str(n))) for n in range(1_010)), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, InboxFull)]
    assert len(refused) == 10
    assert "bob is not reading" in refused[0].what
    assert len(on_disk()) == 1_000
    for _ in range(64):
        await box.put(InboxEntry("system", "notice"), runtime=True)
    with pytest.raises(InboxFull):
        await box.put(InboxEntry("system", "notice"), runtime=True)
    await box.mark_delivered(ids(await box.unread())[:70])
    await box.put(InboxEntry("alice", "room again"))


@pytest.mark.promise("P6")
async def test_a_megabyte_unread_is_full(inbox):
    for _ in range(4):
        await inbox().put(InboxEntry("alice", "x" * 240_000))
    with pytest.raises(InboxFull):
        await inbox().put(InboxEntry("alice", "x" * 100_000))
    await inbox().put(InboxEntry("alice", "short"))


async def test_a_full_inbox_that_somebody_else_emptied_takes_mail_again(inbox, path, on_disk):
    await asyncio.gather(*(inbox().put(InboxEntry("alice", "x")) for _ in range(1_000)))
    entries = on_disk()
    for entry in entries[:10]:
        entry["read"] = True
    path.write_text(json.dumps(entries))
    await inbox().put(InboxEntry("alice", "y"))
    assert count_entries(path) == (991, 1_001)


@pytest.mark.promise("F07")
async def test_an_unread_contentless_idle_notice_is_replaced_by_a_contentless_one_of_the_same_sender_only(inbox):
    await inbox().put(idle("alice"))
    await inbox().put(idle("carol"))
    await inbox().put(idle("alice", result="done"))
    await inbox().put(InboxEntry("alice", "words"))
    latest = await inbox().put(idle("alice"))
    entries = await inbox().unread()
    assert [entry.sender for entry in entries] == ["carol", "alice", "alice", "alice"]
    assert entries[-1].msg_id == latest
    await inbox().put(idle("alice", failure_reason="out of money"))
    assert len(await inbox().unread()) == 5


async def test_a_read_idle_notice_is_history_and_stays(inbox, on_disk):
    first = await inbox().put(idle("alice"))
    await inbox().mark_delivered([first])
    await inbox().put(idle("alice"))
    assert len(on_disk()) == 2


@pytest.mark.promise("F10", "C9")
async def test_past_100_consumed_entries_the_older_ones_go_to_the_archive_and_unread_ones_stay(inbox, place, on_disk):
    path, _, archive = place
    sent = [await inbox().put(InboxEntry("alice", str(n))) for n in range(140)]
    keep = sent[3]
    await inbox().mark_delivered([i for i in sent[:101] if i != keep])
    assert not archive.exists()
    await inbox().mark_delivered([sent[101]])
    assert [json.loads(line)["msg_id"] for line in archive.read_bytes().splitlines()] == [
        i for i in sent[:52] if i != keep
    ]
    assert [entry["msg_id"] for entry in on_disk()] == [keep, *sent[52:]]
    assert ids(await inbox().unread()) == [keep, *sent[102:]]
    assert archive.stat().st_mode & 0o777 == path.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("C9")
async def test_the_file_does_not_grow_with_what_was_consumed(inbox, place):
    largest = 0
    for _ in range(12):
        sent = await asyncio.gather(*(inbox().put(InboxEntry("alice", "x" * 200)) for _ in range(100)))
        await inbox().mark_delivered(sent)
        largest = max(largest, place[0].stat().st_size)
        assert count_entries(place[0])[1] <= 200
    assert len(place[2].read_bytes().splitlines()) == 1_200 - count_entries(place[0])[1]
    assert largest < 100_000


async def test_an_archive_that_was_written_before_a_kill_is_not_written_twice(inbox, place):
    path, _, archive = place
    sent = [await inbox().put(InboxEntry("alice", str(n))) for n in range(101)]
    before = path.read_bytes()
    await inbox().mark_delivered(sent)
    once = archive.read_bytes()
    path.write_bytes(before)
    await inbox().mark_delivered(sent)
    assert archive.read_bytes() == once
    assert count_entries(path) == (0, 50)


@pytest.mark.promise("P1")
async def test_a_full_disk_does_not_keep_a_flag_from_being_set(inbox, place, on_disk, monkeypatch):
    sent = [await inbox().put(InboxEntry("alice", str(n))) for n in range(120)]

    def full(*_):
        raise StorageError("disk-full", "full")

    monkeypatch.setattr("teamwright.mail.inbox.Journal.open", full)
    await inbox().mark_delivered(sent)
    assert all(entry["read"] for entry in on_disk())
    assert len(on_disk()) == 120


async def test_a_path_has_one_inbox_in_a_loop(place):
    assert inbox_for(*place) is inbox_for(*place)


@pytest.mark.promise("F66")
async def test_files_are_private(inbox, place):
    await inbox().put(InboxEntry("alice", "x"))
    path, guard, _ = place
    assert path.stat().st_mode & 0o777 == guard.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def leave_lock(path, *, age_s: float) -> None:
    """Lock the inbox as a program that was killed so long ago, and let each attempt of ours wait for 0.1 s."""
    lock = path.with_name("bob.json.lock")
    lock.mkdir()
    os.utime(lock, (time.time() - age_s,) * 2)


@pytest.mark.promise("P1")
@pytest.mark.finding("3I4")
async def test_a_notice_of_the_runtime_and_the_readers_flags_outlast_the_lock_of_a_killed_program(
    inbox, place, on_disk
):
    await inbox().put(InboxEntry("alice", "first"))
    [first] = await inbox().unread()
    lock_for(*place[:2]).wait_s = 0.1
    leave_lock(place[0], age_s=9.5)
    with pytest.raises(LockTimeout):
        await inbox().put(InboxEntry("alice", "a message of an agent is refused at once"))
    async with asyncio.timeout(WAIT_S):
        await inbox().put(InboxEntry("system", "ada has ended"), runtime=True)
    leave_lock(place[0], age_s=9.7)
    async with asyncio.timeout(WAIT_S):
        await inbox().mark_delivered([first.msg_id])
    assert [(entry["text"], entry["read"]) for entry in on_disk()] == [("first", True), ("ada has ended", False)]
