"""Damaged inboxes: judged under the lock only, copied aside, and every whole entry is saved."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.mail.inbox import Inbox, read_entries
from teamwright.protocol.errors import StorageError
from teamwright.protocol.mail import InboxEntry
from teamwright.storage.json_array import salvage_entries
from tests.support.examples import examples
from tests.support.inboxes import count_entries

TWO = b'[\n{"from":"a","text":"1","read":false},\n{"from":"a","text":"2","read":false}\n]'

DAMAGED = {
    "cut in an entry": (TWO[:-20], ["1"]),
    "cut in its end": (TWO[:-2], ["1", "2"]),
    "the end twice": (TWO + b"\n]", ["1", "2"]),
    "a hole of zeros": (TWO[:-2] + b"\0" * 100 + b"]", ["1", "2"]),
    "an object": (b"{}", []),
    "words": (b"not json", []),
    "empty": (b"", []),
    "torn in the middle": (TWO.replace(b'"text":"1"', b'"text":"1'), ["2"]),
    "two writers at once": (TWO + TWO, ["1", "2", "1", "2"]),
    "bad utf-8": (TWO.replace(b'"1"', b'"\xff"'), ["\ufffd", "2"]),
}


@pytest.fixture(params=DAMAGED)
def damaged(request, path):
    content, saved = DAMAGED[request.param]
    path.parent.mkdir()
    path.write_bytes(content)
    return content, saved


@pytest.mark.promise("F04", "C3")
async def test_the_owner_sets_damaged_bytes_aside_saves_every_whole_entry_and_tells(damaged, tmp_path, path):
    content, saved = damaged
    told = []
    archive = tmp_path / "archive.jsonl"
    inbox = Inbox(path, tmp_path / "guard", archive, on_damage=lambda *facts: told.append(facts))
    entries = await inbox.unread()
    assert [entry.text for entry in entries] == saved
    (where, copy, count) = told[0]
    assert (where, count, len(told)) == (path, len(saved), 1)
    assert copy.read_bytes() == content
    assert copy.name.startswith("bob.json.bad.")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert all(entry["msg_id"] for entry in json.loads(path.read_bytes()))


@pytest.mark.promise("F04")
async def test_a_sender_never_takes_a_damaged_inbox_for_an_empty_one(damaged, inbox, path, on_disk):
    content, saved = damaged
    await inbox().put(InboxEntry("b", "new"))
    assert [entry["text"] for entry in on_disk()] == [*saved, "new"]
    assert [copy.read_bytes() for copy in path.parent.glob("*.bad.*")] == [content]


async def test_an_onlooker_changes_nothing_and_says_that_it_cannot_read(damaged, path):
    content, _ = damaged
    for look in (read_entries, count_entries):
        with pytest.raises(StorageError) as told:
            look(path)
        assert told.value.slug == "damaged-file"
    assert path.read_bytes() == content
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.promise("F04")
async def test_a_file_that_is_being_written_is_read_again_and_not_judged(inbox, path, monkeypatch):
    await inbox().put(InboxEntry("a", "1"))
    whole = path.read_bytes()
    path.write_bytes(b"")
    looks = []

    async def strangers_write_ends(delay):
        looks.append(delay)
        path.write_bytes(whole)

    monkeypatch.setattr("teamwright.mail.inbox_file.asyncio.sleep", strangers_write_ends)
    assert [entry.text for entry in await inbox().unread()] == ["1"]
    assert len(looks) == 1
    assert not list(path.parent.glob("*.bad.*"))


@settings(max_examples=examples(150), deadline=None)
@given(
    wanted=st.lists(st.text(max_size=20), min_size=1, max_size=6),
    cut=st.floats(0, 1),
    indent=st.sampled_from([None, 2]),
)
def test_of_a_cut_array_every_entry_before_the_cut_is_saved(wanted, cut, indent):
    entries = [{"from": "a", "text": text, "nested": {"list": [{}, [1]]}} for text in wanted]
    content = json.dumps(entries, indent=indent).encode()
    saved = salvage_entries(content[: int(len(content) * cut)])
    assert saved == entries[: len(saved)]
    assert salvage_entries(content) == entries


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ \nfromtex01', max_size=200).map(str.encode))
def test_salvage_never_fails(content):
    assert all("text" in entry or "from" in entry for entry in salvage_entries(content))


def test_salvage_of_deep_or_endless_nesting_ends():
    assert salvage_entries(b"[" + b'{"a":[' * 50_000) == []
    assert salvage_entries(b'[\n{"from":"a","text":"1"},' + b"{," * 100_000) == [{"from": "a", "text": "1"}]
