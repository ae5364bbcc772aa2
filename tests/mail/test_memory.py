"""Mail that was read stays in the memory of no process, and mail that waits is parsed once."""

import gc

import pytest

from teamwright.mail import inbox_file
from teamwright.mail.inbox import Inbox
from teamwright.mail.inbox_file import MAX_UNREAD, InboxItem, LockedInbox
from teamwright.protocol.errors import InboxFull
from teamwright.protocol.mail import IdleNotification, InboxEntry
from teamwright.storage.json_array import NotAnArray, encode_array


def notice(number, result):
    return IdleNotification(sender="bea", timestamp=f"time {number}", result=result).encode()


def kept_elements():
    gc.collect()
    return sum(isinstance(one, InboxItem) for one in gc.get_objects())


@pytest.mark.finding("T25")
@pytest.mark.slow
async def test_elements_of_consumed_mail_are_not_kept_in_memory(inbox):
    reader = inbox()
    before = kept_elements()
    for number in range(400):
        await reader.put(InboxEntry("ada", f"message {number}"))
        (entry,) = await reader.unread()
        await reader.mark_delivered([entry.msg_id])
    assert kept_elements() <= before


@pytest.mark.finding("T25")
async def test_an_inbox_full_of_unread_mail_is_parsed_once_though_it_grows_and_is_flagged(inbox, place, monkeypatch):
    parsed, loads = [], inbox_file.json.loads
    entries = [InboxEntry("ada", f"message {number}", msg_id=f"id-{number}").encode() for number in range(900)]
    place[0].parent.mkdir(exist_ok=True)
    place[0].write_bytes(b"[\n" + b",\n".join(entries) + b"\n]")
    other = Inbox(*place)  # as in another process
    await other.put(InboxEntry("ada", "first"))
    monkeypatch.setattr(inbox_file.json, "loads", lambda raw: parsed.append(raw) or loads(raw))
    for number in range(5):
        assert len(await inbox().unread()) == 901 - number
        await inbox().mark_delivered([f"id-{200 * number}"])
        await other.put(InboxEntry("ada", f"more {number}"))
        assert len(await inbox().unread()) == 901 - number
        await inbox().mark_delivered([f"id-{200 * number + 1}"])
    assert len(parsed) == 906


def test_elements_that_moved_while_the_array_was_damaged_are_all_found(place):
    inbox = LockedInbox(*place[:2], None)
    entries = [InboxEntry("ada", f"message {number}", msg_id=f"id-{number}").encode() for number in range(4)]
    assert len(inbox.split(encode_array(entries[1:3]))) == 2
    with pytest.raises(NotAnArray):
        inbox.split(encode_array([*entries[:3], b'{"from":}']))
    assert [item.msg_id for item in inbox.split(encode_array(entries))] == [f"id-{number}" for number in range(4)]


@pytest.mark.parametrize(("many", "result"), [(MAX_UNREAD, "all is done"), (MAX_UNREAD - 5, None)])
@pytest.mark.slow_after(1)
async def test_a_notice_in_place_of_an_older_one_parses_that_one_alone(inbox, on_disk, monkeypatch, many, result):
    for number in range(many):
        text = notice(number, result) if number in {300, 301} else f"message {number}"
        await inbox().put(InboxEntry("bea" if number == 301 else "ada", text, msg_id=f"id-{number}"))
    await inbox().unread()
    parsed, loads = [], inbox_file.json.loads
    monkeypatch.setattr(inbox_file.json, "loads", lambda raw: parsed.append(raw) or loads(raw))
    await inbox().put(InboxEntry("bea", notice(many, result), msg_id="newer"))
    unread = await inbox().unread()
    assert sum(isinstance(raw, bytes) for raw in parsed) == 1
    wanted = [f"id-{number}" for number in range(many) if number != 301] + ["newer"]
    assert [entry.msg_id for entry in unread] == [entry["msg_id"] for entry in on_disk()] == wanted
    for number in range(MAX_UNREAD - many):
        await inbox().put(InboxEntry("ada", f"more {number}"))
    with pytest.raises(InboxFull):
        await inbox().put(InboxEntry("ada", "one more"))
