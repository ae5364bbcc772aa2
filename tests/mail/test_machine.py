"""The inbox against a model in memory: any order of sends, reads, flags, strangers and restarts."""

import asyncio
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from teamwright.mail.inbox import Inbox, counts
from teamwright.protocol.mail import Entry

TEXTS = st.text(max_size=8) | st.sampled_from(["x" * 900, "y" * 3_000, "z" * 9_000])


class Mailbox(RuleBasedStateMachine):
    """`unread`: numbers of what waits, in order; `consumed`: of what was flagged and not removed by a stranger."""

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.unread = []
        self.consumed = set()
        self.count = 0
        self.restart()

    def teardown(self):
        self.runner.close()
        shutil.rmtree(self.directory)

    @property
    def path(self):
        return self.directory / "bob.json"

    def entry(self, text):
        self.count += 1
        self.unread.append(self.count)
        return Entry("alice", text, extra={"number": self.count})

    @rule()
    def restart(self):
        self.inbox = Inbox(self.path, self.directory / "guard", self.directory / "archive.jsonl")
        self.other = Inbox(self.path, self.directory / "guard", self.directory / "archive.jsonl")

    @rule(text=TEXTS)
    def send(self, text):
        self.runner.run(self.inbox.send(self.entry(text)))

    @rule(text=TEXTS)
    def send_from_elsewhere(self, text):
        self.runner.run(self.other.send(self.entry(text)))

    @rule(count=st.integers(2, 40))
    def send_together(self, count):
        entries = [self.entry(f"{n}") for n in range(count)]

        async def together():
            await asyncio.gather(*(self.inbox.send(entry) for entry in entries))

        self.runner.run(together())

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
        self.runner.run(self.inbox.mark_read([entry.msg_id for entry in chosen] + ["vanished"]))
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
        self.consumed -= {e["number"] for e in elements if e.get("read")}
        beside = self.path.with_name("theirs")
        beside.write_text(json.dumps([e for e in elements if not e.get("read")]))
        beside.rename(self.path)

    @rule()
    def owner_dies_between_archive_and_rename(self):
        archive = self.directory / "archive.jsonl"
        consumed = [e for e in self.elements() if e.get("read")]
        if len(consumed) > 60 and not archive.exists():
            archive.write_bytes(
                b"".join(json.dumps(e, separators=(",", ":")).encode() + b"\n" for e in consumed[:5]) + b'{"torn'
            )

    @invariant()
    def nothing_is_lost_hidden_or_torn(self):
        elements = self.elements()
        archive = self.directory / "archive.jsonl"
        lines = archive.read_bytes().split(b"\n")[:-1] if archive.exists() else []
        assert [e["number"] for e in elements if not e.get("read")] == self.unread
        kept = {json.loads(line)["number"] for line in lines} | {e["number"] for e in elements if e.get("read")}
        assert kept >= self.consumed
        assert all(json.loads(line)["read"] for line in lines)
        assert counts(self.path) == (len(self.unread), len(elements))
        assert not list(self.directory.glob("*.tmp.*"))
        assert not list(self.directory.glob("*.lock"))


Mailbox.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.promise("P1", "C3", "F04", "F05", "F10")
class TestMailbox(Mailbox.TestCase):
    """Run by pytest."""
