"""Mail that was read stays in the memory of no process, however much of it comes."""

import pytest

from teamwright.mail import layout
from teamwright.protocol.mail import Entry


@pytest.mark.finding("T25")
async def test_lines_of_consumed_mail_are_not_kept_in_memory(inbox):
    reader = inbox()
    before = len(layout._known)
    for number in range(400):
        await reader.send(Entry("ada", f"message {number}"))
        (entry,) = await reader.unread()
        await reader.mark_read([entry.msg_id])
    assert len(layout._known) <= before + 2 * 64 + 2


@pytest.mark.finding("T25")
async def test_an_inbox_full_of_unread_mail_is_parsed_once_though_it_is_read_many_times(inbox, path, monkeypatch):
    parsed, loads = [], layout.json.loads
    entries = [Entry("ada", f"message {number}", msg_id=f"id-{number}").encode() for number in range(900)]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"[\n" + b",\n".join(entries) + b"\n]")
    monkeypatch.setattr(layout.json, "loads", lambda raw: parsed.append(raw) or loads(raw))
    for _ in range(5):
        assert len(await inbox().unread()) == 900
    assert len(parsed) == 900
