"""Many processes at one inbox, some of them strangers, some of them killed: nothing sent is lost or hidden."""

import json
import random
from collections import Counter

import pytest

from teamwright.mail.inbox import Inbox
from teamwright.protocol.mail import InboxEntry
from tests.support.waits import WAIT_S


def archived(place):
    return [json.loads(line) for line in place[2].read_bytes().splitlines()] if place[2].exists() else []


@pytest.mark.promise("P1", "F03", "C3")
@pytest.mark.slow
def test_four_writers_lose_nothing(start, on_disk):
    writers = [start("send", f"w{n}", 100) for n in range(4)]
    assert [w.wait(WAIT_S) for w in writers] == [0, 0, 0, 0]
    entries = on_disk()
    assert Counter((e["from"], e["text"]) for e in entries) == Counter(
        (f"w{n}", str(i)) for n in range(4) for i in range(100)
    )
    for n in range(4):
        own = [int(e["text"]) for e in entries if e["from"] == f"w{n}"]
        assert [number // 5 for number in own] == sorted(number // 5 for number in own)


@pytest.mark.promise("F03", "C3")
@pytest.mark.slow
def test_writers_of_ours_and_strangers_that_truncate_and_rewrite_lose_nothing(start, on_disk):
    processes = [start("send", "ours", 100), start("older_stranger", "theirs", 100), start("send", "more", 50)]
    assert [p.wait(WAIT_S) for p in processes] == [0, 0, 0]
    got = Counter((e["from"], e["text"]) for e in on_disk())
    assert got == Counter(
        [("ours", str(i)) for i in range(100)]
        + [("theirs", str(i)) for i in range(100)]
        + [("more", str(i)) for i in range(50)]
    )


@pytest.mark.promise("F03", "C3")
@pytest.mark.slow
def test_a_stranger_that_removes_what_it_consumed_gets_everything_once(start, tmp_path, path):
    processes = [start("send", "a", 100), start("send", "b", 100), start("newer_stranger", 150)]
    assert [p.wait(WAIT_S) for p in processes] == [0, 0, 0]
    consumed = (tmp_path / "consumed").read_text().splitlines()
    left = [f"{e['from']} {e['text']}" for e in json.loads(path.read_bytes())]
    assert Counter(consumed + left) == Counter(f"{name} {i}" for name in "ab" for i in range(100))


@pytest.mark.slow
@pytest.mark.promise("P1", "F03", "F04", "F29")
async def test_writers_of_1_b_to_200_kb_killed_at_any_moment_tear_no_file_and_hide_no_message(start, place, on_disk):
    """Two write at once, each killed at an instant of its own; what they said they sent is there, once, in order."""
    chance = random.Random(7)
    for seed in range(0, 20, 2):
        writers = [start("send_until_killed", seed + n, 14) for n in range(2)]
        said = [[w.stdout.readline().strip() for _ in range(chance.randint(1, 9))] for w in writers]
        for writer, ids in zip(writers, said, strict=True):
            writer.kill()
            rest, _ = writer.communicate(timeout=WAIT_S)
            ids += rest.split()
        present = [entry["msg_id"] for entry in on_disk()]
        for ids in said:
            assert [i for i in present if i in set(ids)] == ids
        inbox = Inbox(*place)
        await inbox.mark_delivered([entry.msg_id for entry in await inbox.unread()])
        assert not [entry for entry in on_disk() if not entry["read"]]
    everything = [entry["msg_id"] for entry in [*archived(place), *on_disk()]]
    assert len(everything) == len(set(everything))
    assert not list(place[0].parent.glob("*.bad.*"))


@pytest.mark.promise("P1", "F02", "F05", "F29")
@pytest.mark.slow
def test_an_owner_killed_at_any_moment_sees_again_only_what_it_had_not_flagged(start, place, tmp_path):
    writer = start("send", "alice", 600)
    for rounds in (1, 3, 8, 15):
        owner = start("consume_for_ever")
        for _ in range(rounds):
            owner.stdout.readline()
        owner.kill()
        owner.wait(WAIT_S)
    assert writer.wait(WAIT_S) == 0
    seen = set((tmp_path / "seen").read_text().split())
    entries = json.loads(place[0].read_bytes())
    flagged = [e["msg_id"] for e in archived(place) + entries if e["read"]]
    unread = [e["text"] for e in entries if not e["read"]]
    assert set(flagged) <= seen
    assert len(flagged) == len(set(flagged))
    assert Counter([e["text"] for e in archived(place)] + [e["text"] for e in entries]) == Counter(map(str, range(600)))
    assert sorted(map(int, unread)) == sorted(set(map(int, unread)))


@pytest.mark.promise("P1", "F04")
@pytest.mark.parametrize("limit", [3_000, 8_192, 9_999])
@pytest.mark.parametrize("size", [10, 900])
@pytest.mark.slow_after(1)
def test_on_a_full_disk_a_send_fails_and_the_file_is_as_it_was(start, on_disk, path, limit, size):
    said, _ = start("send_until_full", limit, size).communicate(timeout=WAIT_S)
    *sent, slug = said.split()
    assert slug == "disk-full"
    assert [entry["msg_id"] for entry in on_disk()] == sent
    assert len(sent) > 1
    assert [file.name for file in path.parent.iterdir()] == ["bob.json"]


@pytest.mark.promise("P1")
async def test_a_send_whose_file_was_replaced_under_it_arrives_exactly_once(place, on_disk):
    """A stranger without a lock renames its copy over ours between our write and our look: we notice and send again."""
    inbox = Inbox(*place)
    await inbox.put(InboxEntry("alice", "first"))
    old = place[0].read_bytes()
    from teamwright.storage import json_array

    settle = json_array.ArrayFile.final_stamp
    times = 0

    def clobbered(self):
        nonlocal times
        times += 1
        if times == 1:
            beside = place[0].with_name("strangers")
            beside.write_bytes(old)
            beside.rename(place[0])
        return settle(self)

    json_array.ArrayFile.final_stamp = clobbered
    try:
        await inbox.put(InboxEntry("alice", "second"))
    finally:
        json_array.ArrayFile.final_stamp = settle
    assert [entry["text"] for entry in on_disk()] == ["first", "second"]


@pytest.mark.promise("P1")
async def test_a_send_that_lost_its_lock_after_the_write_does_not_write_twice(place, on_disk):
    inbox = Inbox(*place)
    from teamwright.protocol.errors import LockLost
    from teamwright.storage import json_array

    settle = json_array.ArrayFile.final_stamp
    times = 0

    def lost_once(self):
        nonlocal times
        times += 1
        if times == 1:
            raise LockLost("lock-lost", "taken")
        return settle(self)

    json_array.ArrayFile.final_stamp = lost_once
    try:
        msg_id = await inbox.put(InboxEntry("alice", "once"))
    finally:
        json_array.ArrayFile.final_stamp = settle
    assert [entry["msg_id"] for entry in on_disk()] == [msg_id]
