"""An inbox that another program floods: what is parsed at a time is bounded, and nothing is lost or doubled."""

import json

import pytest

from teamwright.mail import inbox_file
from teamwright.mail.inbox_file import MAX_RUNTIME_UNREAD, MAX_UNREAD
from teamwright.protocol.errors import InboxFull
from teamwright.protocol.mail import InboxEntry
from tests.support.inboxes import count_entries

MOST = MAX_UNREAD + MAX_RUNTIME_UNREAD


@pytest.fixture
def parsed(monkeypatch):
    """How many elements were looked at."""
    found = []
    whole = inbox_file.InboxItem.__init__

    def counted(item, *args):
        found.append(1)
        whole(item, *args)

    monkeypatch.setattr(inbox_file.InboxItem, "__init__", counted)
    return found


def flood(path, many, indent=2):
    """As another program writes: without ids, in a layout of its own."""
    path.parent.mkdir(exist_ok=True)
    entries = [{"from": "other", "text": f"{n} " + "x" * 230, "read": False} for n in range(many)]
    path.write_text(json.dumps(entries, indent=indent))


@pytest.mark.finding("T17")
@pytest.mark.parametrize("indent", [2, None])
@pytest.mark.slow_after(1)
async def test_very_many_entries_are_read_some_at_a_time_each_once_and_in_order(inbox, path, parsed, indent):
    flood(path, 5_000, indent)
    found, looks = [], []
    while entries := await inbox().unread():
        found += [int(entry.text.split()[0]) for entry in entries]
        looks.append(len(entries))
        await inbox().mark_delivered([entry.msg_id for entry in entries])
    assert found == list(range(5_000))
    assert looks[0] == MOST and len(looks) > 1
    assert count_entries(path)[0] == 0


MANY = pytest.mark.parametrize("many", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])


@MANY
@pytest.mark.finding("T17")
@pytest.mark.slow
async def test_a_look_at_a_flooded_inbox_parses_no_more_than_one_turn_takes(inbox, path, parsed, many):
    flood(path, many)
    parsed.clear()
    assert len(await inbox().unread()) == MOST
    assert len(parsed) < 4 * MOST
    parsed.clear()
    await inbox().unread()
    assert not parsed


@MANY
@pytest.mark.finding("T17")
async def test_refused_sends_to_a_flooded_inbox_count_it_once(inbox, path, parsed, many):
    flood(path, many)
    parsed.clear()
    for _ in range(20):
        with pytest.raises(InboxFull):
            await inbox().put(InboxEntry("alice", "hello"))
    assert len(parsed) <= MOST + 1


@pytest.mark.finding("T17")
@pytest.mark.slow
async def test_an_own_entry_behind_very_many_others_is_not_taken_for_lost(inbox, path):
    arrived, lost = [], []
    inbox().set_listeners(arrived.extend, lost.extend)
    await inbox().put(InboxEntry("alice", "mine", msg_id="mine"))
    own = json.loads(path.read_bytes())
    flood(path, 5_000)
    path.write_text(json.dumps(json.loads(path.read_bytes()) + own, indent=2))
    texts = []
    assert await inbox().contains("mine")
    while entries := await inbox().unread():
        texts += [entry.text for entry in entries]
        await inbox().mark_delivered([entry.msg_id for entry in entries])
    assert texts[-1] == "mine" and len(texts) == 5_001
    assert len(arrived) == 5_000 and not lost
