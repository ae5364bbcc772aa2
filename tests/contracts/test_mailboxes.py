"""The contract of every mailbox, on files, in memory and in a database; `open_mailbox` is like one more process."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from teamwright.database.mailbox import DatabaseMailbox
from teamwright.mail.inbox import Inbox
from teamwright.mail.mailbox import FollowedMailbox
from teamwright.mail.message_size import MAX_TEXT_BYTES
from teamwright.protocol.errors import InboxFull, UsageError
from teamwright.protocol.ids import iso_time
from teamwright.protocol.mail import IdleNotification, InboxEntry
from teamwright.storage.file_watcher import Watcher
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from tests.contracts.database_processes import database_processes
from tests.support.memory_stores import MemoryMailbox, MemoryMailTable
from tests.support.waits import WAIT_S


@pytest.fixture(params=["files", "memory", "database"])
async def open_mailbox(request, tmp_path) -> AsyncIterator[Callable[[], FollowedMailbox]]:
    if request.param == "database":
        async with database_processes(request.getfixturevalue("postgres").new_space()) as stores:
            yield lambda: stores().mailbox("demo", "bob")
        return
    home, table = Home.at(tmp_path / "home"), MemoryMailTable("bob")
    if request.param == "memory":
        yield lambda: MemoryMailbox(table)
        return
    paths = FileStores(home).inbox_paths("demo", "bob")
    paths[0].parent.parent.mkdir(parents=True)
    yield lambda: Inbox(*paths)


def text(entry: InboxEntry) -> str:
    return entry.text


async def texts(mailbox) -> list[str]:
    return [entry.text for entry in await mailbox.unread()]


@pytest.mark.slow_after(1)
async def test_an_entry_is_unread_with_its_id_until_it_is_marked(open_mailbox):
    sender, reader = open_mailbox(), open_mailbox()
    id = await sender.put(InboxEntry("ann", "hello", summary="greeting", extra={"priority": 1}))
    [entry] = await reader.unread()
    assert (entry.msg_id, entry.sender, entry.text, entry.summary) == (id, "ann", "hello", "greeting")
    assert entry.extra["priority"] == 1 and entry.timestamp
    assert not await reader.mark_delivered([id, "unknown"])
    assert await reader.unread() == [] and await open_mailbox().unread() == []


async def test_entries_arrive_in_the_order_of_their_sender(open_mailbox):
    senders, reader = [open_mailbox() for _ in range(3)], open_mailbox()

    async def send(mailbox, name):
        for number in range(8):
            await mailbox.put(InboxEntry(name, str(number)))

    await asyncio.gather(*[send(mailbox, f"m{n}") for n, mailbox in enumerate(senders)])
    entries = await reader.unread()
    assert len(entries) == 24 and len({entry.msg_id for entry in entries}) == 24
    for n in range(3):
        assert [entry.text for entry in entries if entry.sender == f"m{n}"] == [str(number) for number in range(8)]


async def test_an_entry_that_arrives_while_others_are_marked_stays_unread(open_mailbox):
    sender, reader = open_mailbox(), open_mailbox()
    ids = [await sender.put(InboxEntry("ann", str(number))) for number in range(5)]
    await asyncio.gather(reader.mark_delivered(ids), sender.put(InboxEntry("ann", "late")))
    assert await texts(reader) == ["late"]


async def test_an_entry_is_contained_also_after_its_delivery(open_mailbox):
    mailbox = open_mailbox()
    await mailbox.put(InboxEntry("ann", "a", msg_id="mine"))
    await mailbox.mark_delivered(["mine"])
    assert await open_mailbox().contains("mine") and not await mailbox.contains("other")
    if not isinstance(mailbox, DatabaseMailbox):  # for mail of other programs, which write into files
        assert [(entry.msg_id, entry.read) for entry in mailbox.entries()] == [("mine", True)]


async def test_a_mailbox_that_was_never_used_is_empty(open_mailbox):
    mailbox = open_mailbox()
    assert await mailbox.unread() == [] and mailbox.entries() == [] and not await mailbox.contains("a")
    assert not await mailbox.mark_delivered(["a"])


async def test_a_text_that_is_too_long_is_refused(open_mailbox):
    mailbox = open_mailbox()
    with pytest.raises(UsageError):
        await mailbox.put(InboxEntry("ann", "x" * (MAX_TEXT_BYTES + 1)))
    assert await mailbox.unread() == []


async def test_a_full_mailbox_refuses_members_and_has_room_for_the_runtime(open_mailbox):
    mailbox = open_mailbox()
    for _ in range(4):
        await mailbox.put(InboxEntry("ann", "x" * 240_000))
    with pytest.raises(InboxFull, match="bob is not reading"):
        await mailbox.put(InboxEntry("ann", "x" * 100_000))
    await mailbox.put(InboxEntry("system", "x" * 100_000), runtime=True)
    await mailbox.mark_delivered([entry.msg_id for entry in await mailbox.unread()])
    await mailbox.put(InboxEntry("ann", "room again"))
    assert await texts(mailbox) == ["room again"]


async def test_a_notice_without_content_replaces_an_older_one_of_its_sender(open_mailbox):
    mailbox = open_mailbox()
    for sender in ("ann", "ben", "ann"):
        await mailbox.put(InboxEntry(sender, IdleNotification(sender=sender, timestamp=iso_time()).encode()))
    await mailbox.put(InboxEntry("ann", IdleNotification(sender="ann", timestamp=iso_time(), result="done").encode()))
    assert [entry.sender for entry in await mailbox.unread()] == ["ben", "ann", "ann"]


async def test_arrivals_from_others_are_reported_once_and_own_ones_never(open_mailbox):
    own, other, seen = open_mailbox(), open_mailbox(), []
    await other.put(InboxEntry("ann", "before"))
    own.set_listeners(lambda entries: seen.extend(map(text, entries)), lambda _lost: None)
    await other.put(InboxEntry("ann", "theirs"))
    await own.put(InboxEntry("lead", "ours"))
    await own.unread()
    await own.unread()
    assert seen == ["theirs"]


async def test_a_watched_mailbox_calls_back_when_another_process_writes(open_mailbox):
    own, other, rung = open_mailbox(), open_mailbox(), asyncio.Event()
    async with Watcher() as watcher:
        end = own.watch(watcher, rung.set)
        await other.put(InboxEntry("ann", "hello"))
        async with asyncio.timeout(WAIT_S):
            await rung.wait()
        assert await texts(own) == ["hello"]
        end()
