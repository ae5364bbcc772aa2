"""The inbox against a model in memory: any order of sends, reads, flags, strangers, damage, kills and restarts."""

import asyncio
import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from teamwright.mail.inbox import Inbox
from teamwright.protocol.mail import InboxEntry
from tests.support.examples import examples
from tests.support.inboxes import count_entries
from tests.support.mortal_machine import MortalMachine

TEXTS = st.text(max_size=8) | st.sampled_from(["x" * 900, "y" * 3_000, "z" * 9_000])


pytestmark = pytest.mark.usefixtures("mortal")


class Mailbox(MortalMachine):
    """`unread`: numbers of what waits, in order; `consumed`: of what was flagged and not removed by a stranger.

    `ids` are those of what was sent and is neither torn nor taken by a stranger; `damaged` what was set aside.
    """

    def __init__(self):
        super().__init__()
        self.path = self.home.inbox("demo", "bob")
        self.archive = self.home.inbox_archive("demo", "bob")
        self.path.parent.mkdir(parents=True)
        self.unread = []
        self.consumed = set()
        self.ids = {}
        self.damaged = []
        self.count = 0
        self.restart()

    def entry(self, text):
        self.count += 1
        self.unread.append(self.count)
        return InboxEntry("alice", text, extra={"number": self.count})

    @rule()
    def restart(self):
        self.inbox, self.other = (Inbox(self.path, self.home.guard(self.path), self.archive) for _ in range(2))

    @rule(text=TEXTS)
    def send(self, text):
        msg_id = self.runner.run(self.inbox.put(self.entry(text)))
        self.ids[msg_id] = self.count

    @rule(text=TEXTS)
    def send_from_elsewhere(self, text):
        msg_id = self.runner.run(self.other.put(self.entry(text)))
        self.ids[msg_id] = self.count

    @rule(texts=st.lists(TEXTS, min_size=1, max_size=3), at=st.integers(0, 14), torn=st.booleans())
    def a_sender_in_another_process_is_killed_or_not(self, texts, at, torn):
        """What it sent is there whole, the first ones first, or not there; if it lived, all is there."""
        numbers = [self.count + n for n in range(1, len(texts) + 1)]
        self.count += len(texts)
        answer = self.life("send", at, torn, texts=texts, numbers=numbers)
        there = [e["number"] for e in self.elements() if e.get("number") in numbers]
        assert there == numbers[: len(there)]
        assert "died" in answer or there == numbers
        self.unread += there

    @rule(part=st.floats(0.1, 1), at=st.integers(0, 20), torn=st.booleans())
    def the_owner_is_killed_while_it_flags(self, part, at, torn):
        """Of what it wanted to flag some is flagged, the rest waits; nothing else changed."""
        entries = self.runner.run(self.inbox.unread())
        chosen = entries[: int(len(entries) * part)]
        answer = self.life("mark_read", at, torn, ids=[entry.msg_id for entry in chosen])
        waiting = {e["number"] for e in self.elements() if not e.get("read")}
        done = {entry.extra["number"] for entry in chosen} - waiting
        assert "died" in answer or len(done) == len(chosen)
        self.consumed |= done
        self.unread = [number for number in self.unread if number not in done]

    def life(self, do, at, torn, **args):
        """A process of its own does this and may be killed; whatever comes next is not held up by what it left."""
        return self.mortal.life(do, at=at, torn=torn, **args)

    @rule(count=st.integers(2, 40))
    def send_together(self, count):
        entries = [self.entry(f"{n}") for n in range(count)]

        async def together():
            return await asyncio.gather(*(self.inbox.put(entry) for entry in entries))

        sent = self.runner.run(together())
        self.ids |= dict(zip(sent, (entry.extra["number"] for entry in entries), strict=True))

    @rule()
    def read(self):
        entries = self.runner.run(self.inbox.unread())
        assert [entry.extra["number"] for entry in entries] == self.unread
        assert len({entry.msg_id for entry in entries}) == len(entries)

    @rule(part=st.floats(0.1, 1), from_the_end=st.booleans())
    def flag(self, part, from_the_end):
        entries = self.runner.run(self.inbox.unread())
        number = int(len(entries) * part)
        chosen = entries[len(entries) - number :] if from_the_end else entries[:number]
        self.runner.run(self.inbox.mark_delivered([entry.msg_id for entry in chosen] + ["vanished"]))
        done = {entry.extra["number"] for entry in chosen}
        self.consumed |= done
        self.unread = [number for number in self.unread if number not in done]

    def elements(self):
        return json.loads(self.path.read_bytes()) if self.path.exists() else []

    @rule(indent=st.sampled_from([None, 2]), text=TEXTS)
    def stranger_writes_the_whole_file_again(self, indent, text):
        self.count += 1
        self.unread.append(self.count)
        theirs = {"from": "stranger", "text": text, "number": self.count}
        self.path.write_text(json.dumps([*self.elements(), theirs], indent=indent))

    @precondition(lambda self: self.path.exists())
    @rule()
    def stranger_removes_what_is_consumed(self):
        elements = self.elements()
        self.gone({e["number"] for e in elements if e.get("read")} - self.archived())
        beside = self.path.with_name("theirs")
        beside.write_text(json.dumps([e for e in elements if not e.get("read")]))
        beside.rename(self.path)

    def gone(self, numbers):
        """A stranger took these away."""
        self.consumed -= numbers
        self.ids = {msg_id: number for msg_id, number in self.ids.items() if number not in numbers}

    def archived(self):
        lines = self.archive.read_bytes().split(b"\n")[:-1] if self.archive.exists() else []
        assert all(json.loads(line)["read"] for line in lines)
        return {json.loads(line)["number"] for line in lines}

    @precondition(lambda self: self.path.exists() and self.elements())
    @rule(pick=st.integers(0, 200), depth=st.floats(0, 1), indent=st.sampled_from([None, 2]), by_sender=st.booleans())
    def stranger_dies_writing_and_the_next_of_ours_repairs(self, pick, depth, indent, by_sender):
        """It is cut inside one entry: those before it are saved, a copy is kept, those after it are what it tore."""
        elements = self.elements()
        keep = pick % len(elements)
        before = json.dumps(elements[: keep + 1], indent=indent)
        shorter = json.dumps(elements[:keep], indent=indent)
        inside = len(before) - len(shorter) - 10
        torn = before[: len(before) - 4 - int(inside * depth)].encode()
        self.path.write_bytes(torn)
        self.damaged.append(torn)
        lost = {e["number"] for e in elements[keep:]}
        self.gone(lost - self.archived())
        self.unread = [number for number in self.unread if number not in lost]
        if by_sender:
            self.send("after the damage")
        else:
            self.read()

    @rule(pick=st.integers(0, 1_000))
    def what_was_sent_is_known_by_its_id(self, pick):
        if self.ids:
            assert self.runner.run(self.inbox.contains(list(self.ids)[pick % len(self.ids)]))
        assert not self.runner.run(self.inbox.contains("never-sent"))

    @invariant()
    def nothing_is_lost_hidden_or_torn(self):
        elements = self.elements()
        archived = self.archived()
        assert [e["number"] for e in elements if not e.get("read")] == self.unread
        assert archived | {e["number"] for e in elements if e.get("read")} >= self.consumed
        assert not archived & set(self.unread)
        assert count_entries(self.path) == (len(self.unread), len(elements))
        aside = sorted(self.path.parent.glob("*.bad.*"), key=lambda copy: int(copy.suffix[1:]))
        assert [copy.read_bytes() for copy in aside] == self.damaged


Mailbox.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)


@pytest.mark.promise("P1", "C3", "F04", "F05", "F10")
class TestMailbox(Mailbox.TestCase):
    """Run by pytest."""
