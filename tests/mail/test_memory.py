"""Mail that was read stays in the memory of no process, however much of it comes."""

import pytest

from teamwright.mail import inbox_layout
from teamwright.protocol.mail import InboxEntry


@pytest.mark.finding("T25")
async def test_lines_of_consumed_mail_are_not_kept_in_memory(inbox):
    reader = inbox()
    before = len(inbox_layout._parsed_lines)
    for number in range(400):
        await reader.put(InboxEntry("ada", f"message {number}"))
        (entry,) = await reader.unread()
        await reader.mark_delivered([entry.msg_id])
    assert len(inbox_layout._parsed_lines) <= before + 2 * 64 + 2


@pytest.mark.finding("T25")
async def test_an_inbox_full_of_unread_mail_is_parsed_once_though_it_is_read_many_times(inbox, path, monkeypatch):
    parsed, loads = [], inbox_layout.json.loads
    entries = [InboxEntry("ada", f"message {number}", msg_id=f"id-{number}").encode() for number in range(900)]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"[\n" + b",\n".join(entries) + b"\n]")
    monkeypatch.setattr(inbox_layout.json, "loads", lambda raw: parsed.append(raw) or loads(raw))
    for _ in range(5):
        assert len(await inbox().unread()) == 900
    assert len(parsed) == 900
