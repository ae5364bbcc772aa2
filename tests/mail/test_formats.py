"""The inbox file as others write and read it: their keys, their order and their bytes are theirs."""

from pathlib import Path

import pytest

from teamwright.mail.inbox import read_entries
from teamwright.protocol.mail import InboxEntry, ShutdownRequest, parse_protocol
from teamwright.storage.json_array import PAGE_BYTES

GOLDEN = Path(__file__).parent.parent / "golden"


def place_golden(name, path):
    path.parent.mkdir()
    path.write_bytes((GOLDEN / name).read_bytes())


@pytest.mark.promise("C3")
async def test_the_file_we_write_is_the_golden_one_byte_for_byte(inbox, path):
    stamp = "2026-11-20T22:53:56.642Z"
    request = ShutdownRequest(
        request_id="shutdown-1795215239629@bob", sender="team-lead", reason="please stop", timestamp=stamp
    )
    for n, entry in enumerate(
        [
            InboxEntry("team-lead", "hello all", summary="greeting all", timestamp=stamp),
            InboxEntry("alice", 'naïve "quotes"\nand a line', summary="to bob", timestamp=stamp, color="blue"),
            InboxEntry("team-lead", request.encode(), timestamp=stamp),
            InboxEntry("carol", "kept", timestamp=stamp, color="green", extra={"priority": 1, "tags": ["a", None]}),
        ]
    ):
        await inbox().put(entry.copy_with(msg_id=f"00000000-0000-4000-8000-00000000000{n}"))
    await inbox().mark_delivered(["00000000-0000-4000-8000-000000000001"])
    assert path.read_bytes() == (GOLDEN / "inbox_ours.json").read_bytes()


@pytest.mark.promise("C3")
def test_every_golden_inbox_reads_as_it_was_meant():
    ours, older, newer = (read_entries(GOLDEN / f"inbox_{name}.json") for name in ("ours", "older", "newer"))
    assert [(e.sender, e.read) for e in ours] == [
        ("team-lead", False),
        ("alice", True),
        ("team-lead", False),
        ("carol", False),
    ]
    assert isinstance(parse_protocol(ours[2].text), ShutdownRequest)
    assert [(e.sender, e.summary, e.color, e.msg_id, e.read) for e in older] == [
        ("team-lead", "greeting all", None, None, False),
        ("alice", "alice to bob dm", "blue", None, True),
        ("team-lead", None, None, None, False),
        ("undefined", None, None, None, False),
    ]
    assert [(e.sender, e.msg_id, e.extra.get("msgV"), e.read) for e in newer] == [
        ("team-lead", "6f1d2c3b-4a59-4e68-9788-a7b6c5d4e3f2", 1, False),
        ("alice", "16a7b8c9-d0e1-4f23-8455-66778899aabb", 1, False),
    ]
    assert newer[0].extra["lead_sig"].startswith("QUJD")


@pytest.mark.promise("P1", "C3")
async def test_older_strangers_entries_get_an_id_on_the_disk_before_they_are_handed_out(inbox, path, on_disk):
    place_golden("inbox_older.json", path)
    before = on_disk()
    entries = await inbox().unread()
    assert len(entries) == 3
    after = on_disk()
    assert [e.get("msg_id") for e in after if not e.get("read")] == [e.msg_id for e in entries]
    assert len({e.msg_id for e in entries}) == 3
    for old, new in zip(before, after, strict=True):
        assert [key for key in new if key in old] == list(old)
        assert {key: new[key] for key in old} == old
    assert await inbox().unread() == entries


@pytest.mark.promise("C3")
@pytest.mark.parametrize("name", ["inbox_older.json", "inbox_newer.json"])
async def test_flagging_strangers_entries_keeps_their_unknown_keys_and_order(inbox, path, on_disk, name):
    place_golden(name, path)
    entries = await inbox().unread()
    before = on_disk()
    await inbox().mark_delivered([entries[0].msg_id])
    after = on_disk()
    assert [list(entry) for entry in after] == [list(entry) for entry in before]
    assert after[0] == before[0] | {"read": True}
    assert after[1:] == before[1:]
    assert await inbox().unread() == entries[1:]


@pytest.mark.promise("C3")
@pytest.mark.parametrize("name", ["inbox_older.json", "inbox_newer.json"])
async def test_a_send_behind_strangers_entries_keeps_their_bytes(inbox, path, name):
    place_golden(name, path)
    before = path.read_bytes()
    await inbox().put(InboxEntry("alice", "behind"))
    assert path.read_bytes().startswith(before.rstrip()[:-1].rstrip() + b",\n")
    assert read_entries(path)[-1].text == "behind"


@pytest.mark.parametrize("content", [b"[]", b" [ ] \n", b"[\n]"])
async def test_an_empty_array_of_any_layout_takes_a_message(inbox, path, on_disk, content):
    path.parent.mkdir()
    path.write_bytes(content)
    await inbox().put(InboxEntry("alice", "x"))
    assert [entry["text"] for entry in on_disk()] == ["x"]


async def test_elements_that_are_no_entries_are_kept_and_nobody_reads_them(inbox, path, on_disk):
    path.parent.mkdir()
    path.write_text('[null, 3, "x", {"from": "a", "text": "t"}]')
    (entry,) = await inbox().unread()
    await inbox().mark_delivered([entry.msg_id])
    await inbox().put(InboxEntry("alice", "y"))
    assert on_disk()[:3] == [None, 3, "x"]
    assert on_disk()[3]["read"] is True


async def test_an_entry_of_which_the_text_speaks_of_flags_is_flagged_itself(inbox, on_disk):
    lure = await inbox().put(InboxEntry("alice", '{"msg_id":"00000000","read":false}'))
    other = await inbox().put(InboxEntry("alice", "x", extra={"copy": {"msg_id": lure, "read": False}}))
    await inbox().mark_delivered([lure])
    assert [entry["read"] for entry in on_disk()] == [True, False]
    assert [entry.msg_id for entry in await inbox().unread()] == [other]
    assert on_disk()[1]["copy"] == {"msg_id": lure, "read": False}


@pytest.mark.promise("F04")
@pytest.mark.parametrize("shift", range(-8, 9))
async def test_at_the_edge_of_a_page_the_file_is_renamed_and_inside_it_written_in_place(inbox, path, shift):
    await inbox().put(InboxEntry("alice", "", msg_id="a"))
    room = PAGE_BYTES - path.stat().st_size - len(InboxEntry("alice", "", msg_id="b", timestamp="t" * 24).encode())
    inode = path.stat().st_ino
    await inbox().put(InboxEntry("alice", "x" * (room - 2 + shift), msg_id="b"))
    assert path.stat().st_size == PAGE_BYTES + shift
    assert (path.stat().st_ino == inode) == (shift <= 0)
    await inbox().mark_delivered(["b"])
    assert read_entries(path)[1].read
    assert await inbox().unread() == [read_entries(path)[0]]
