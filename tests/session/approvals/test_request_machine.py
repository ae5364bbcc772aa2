"""The life of a request as a state machine: asked, answered here, elsewhere or by nobody, cancelled, cut off by a kill.

Whatever the order: one answer counts, whoever asked gets that one, everybody else is told who was first, and what is
over is not looked at again.
"""

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from teamwright.approvals.answer_from_outside import answer_request
from teamwright.approvals.request_files import RequestFiles, open_requests
from teamwright.approvals.request_queue import RequestQueue
from teamwright.permissions.verdict import PermissionAnswer, Question
from teamwright.protocol.events import RequestAnswer, RequestClosed, RequestOpened
from teamwright.requests.request_store import RequestStore
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.paths import Home
from tests.support.examples import examples
from tests.support.waits import WAIT_S

SESSION = "7f3a0000-0000-4000-8000-0000000000a1"
KINDS = strategies.sampled_from(["permission", "question", "plan"])
ANSWERS = strategies.builds(
    RequestAnswer,
    verdict=strategies.sampled_from(["allow", "deny"]),
    text=strategies.text(max_size=20),
    always=strategies.booleans(),
    input=strategies.none() | strategies.dictionaries(strategies.text(max_size=5), strategies.integers(), max_size=2),
)


@dataclass
class One:
    """A request, the task that waits for it, and what is known of its answer."""

    id: str
    kind: str
    asking: asyncio.Task[PermissionAnswer]
    counts: RequestAnswer | None = None
    by: str = ""


class RequestLives(RuleBasedStateMachine):
    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = tempfile.TemporaryDirectory()
        self.home = Home.at(Path(self.root.name) / "home")
        self.directory = self.home.session(Path("/work"), SESSION)
        self.lives = 0
        self.all: list[One] = []
        self.opened: list[str] = []
        self.closed: dict[str, list[RequestClosed]] = {}
        self._begin()

    def teardown(self) -> None:
        self.queue.close("the end")
        self._run(self._settle())
        self.lease.release()
        self.loop.close()
        self.root.cleanup()

    # ── one process after another ────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        """A life of the session: its lease says which."""
        self.lives += 1
        self.lease = Lease.take(lease_path(self.directory), "a test")
        lease_path(self.directory).write_text(json.dumps({"pid": 1, "since": f"life {self.lives}"}))
        self.queue = RequestQueue(self._note, lambda: True, RequestFiles(self.directory, SESSION))

    def _note(self, event: object) -> None:
        if isinstance(event, RequestOpened):
            self.opened.append(event.request)
        if isinstance(event, RequestClosed):
            self.closed.setdefault(event.request, []).append(event)

    @rule()
    def is_killed_and_resumed(self) -> None:
        """What waits in the process is gone without a word; the next life closes it.

        An answer since then counts for a plan, which the resume of its member asks again.
        """
        self.lease.release()
        left = [one for one in self.all if one.counts is None]
        dead, self.queue = self.queue, None
        dead.emit = lambda _event: None
        dead.files = RequestFiles(Path(self.root.name) / "nowhere", SESSION)
        for one in left:
            waiting = dead._open.get(one.id)
            if waiting is not None:
                waiting.box = None
            one.asking.cancel()
        self._run(self._settle())
        for one in left:
            since = answer_request(self.home, one.id, RequestAnswer(verdict="allow"))
            assert since.kind == ("kept" if one.kind == "plan" else "gone")
        self._begin()
        self.queue.close_abandoned()
        for one in left:
            kept = one.kind == "plan"
            one.counts = RequestAnswer(verdict="allow" if kept else "deny")
            one.by = "another terminal" if kept else "cancelled"

    # ── asking and answering ─────────────────────────────────────────────────────────────────────────────────

    @rule(target=requests, kind=KINDS)
    def is_asked(self, kind: str) -> One:
        return self._ask(kind)

    @rule(target=requests, kind=KINDS)
    def is_asked_and_nobody_answers_in_time(self, kind: str) -> One:
        self.queue.timeout_s = 0.001
        try:
            one = self._ask(kind)
            answer = self._run(asyncio.wait_for(asyncio.shield(one.asking), WAIT_S))
        finally:
            self.queue.timeout_s = None
        assert (answer.allowed, answer.by) == (False, "deadline")
        one.counts, one.by = RequestAnswer(verdict="deny"), "deadline"
        return one

    @rule(one=requests, answer=ANSWERS)
    def is_answered_here(self, one: One, answer: RequestAnswer) -> None:
        assert self._run(self.queue.answer(one.id, answer)) is (one.counts is None)
        self._counts(one, answer, "terminal")

    @rule(one=requests, answer=ANSWERS)
    def is_answered_elsewhere(self, one: One, answer: RequestAnswer) -> None:
        outcome = answer_request(self.home, one.id, answer)
        if one.counts is None:
            assert outcome.counts and outcome.by == "another terminal"
        else:
            assert outcome.kind == ("expired" if one.by == "deadline" else "late")
            assert (outcome.by, outcome.verdict) == (one.by, one.counts.verdict)
        self._counts(one, answer, "another terminal")

    @rule(one=consumes(requests))
    def is_stopped_while_it_waits(self, one: One) -> None:
        if one.counts is None:
            one.asking.cancel()
            self._run(self._settle())
            one.counts, one.by = RequestAnswer(verdict="deny"), "cancelled"

    def _ask(self, kind: str) -> One:
        what = f"touch made-{len(self.all)}"
        question = Question("ann › x", "Bash", kind, what, "r", input={"command": "x"}, owner="ann")
        before = len(self.opened)
        task = self.loop.create_task(self.queue.ask(question))
        while len(self.opened) == before:
            self._run(asyncio.sleep(0))
        one = One(self.opened[-1], kind, task)
        self.all.append(one)
        return one

    def _counts(self, one: One, answer: RequestAnswer, by: str) -> None:
        """The first answer is what whoever asked gets."""
        if one.counts is not None:
            return
        one.counts, one.by = answer, by
        got = self._run(asyncio.wait_for(one.asking, WAIT_S))
        assert (got.allowed, got.by) == (answer.verdict == "allow", by)
        assert (got.text, got.always, got.input) == (answer.text, answer.always, answer.input)

    # ── always ───────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def what_is_open_is_what_waits(self) -> None:
        waiting = {one.id for one in self.all if one.counts is None}
        found = open_requests(self.home)
        assert {one.id for one in found} == waiting
        assert all(one.is_alive for one in found)

    @invariant()
    def what_is_over_is_closed_once_and_lies_apart(self) -> None:
        box = RequestStore(self.directory / "requests")
        for one in self.all:
            if one.counts is None:
                assert one.id not in self.closed
                continue
            [closed] = self.closed[one.id]
            assert (closed.by, closed.verdict) == (one.by, one.counts.verdict)
            assert box.get(one.id) is None
            over = box.get_retired(one.id)
            assert over is not None and over[1]["by"] == one.by

    def _run(self, work):
        return self.loop.run_until_complete(work)

    async def _settle(self) -> None:
        tasks = [one.asking for one in self.all if not one.asking.done()]
        for task in tasks:
            if task.cancelling():
                await asyncio.wait({task}, timeout=WAIT_S)


TestRequestLives = pytest.mark.promise("P4", "G4")(RequestLives.TestCase)
TestRequestLives.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
