"""Requests against a model of them: several boxes that ask and answer, kills, damage, and what is put away."""

import os
import shutil

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.requests.request_store import RequestStore, file_stem
from tests.support.examples import examples
from tests.support.mortal_machine import MortalMachine

IDS = ("plan-1@ann", "plan-2@ann", "perm 1/../x", "plan-1@ann.answer")
ids = st.sampled_from(IDS)
boxes = st.integers(0, 2)
steps = st.integers(0, 5)


pytestmark = pytest.mark.usefixtures("mortal")


class Requests(MortalMachine):
    """`asked` is id → body; `answered` is id → answer, of those that were not put away."""

    def __init__(self):
        super().__init__()
        self.directory = self.home.shared / "requests"
        self.boxes = [RequestStore(self.directory) for _ in range(3)]
        self.asked = {}
        self.answered = {}
        self.damaged = 0

    @rule(id=ids, box=boxes, who=st.sampled_from(["ann", "bob"]))
    def ask(self, id, box, who):
        body = {"requester": who, "target": "team-lead", "incarnation": 1}
        if id in self.asked and self.asked[id] != body:
            with pytest.raises(UsageError):
                self.boxes[box].open(id, body)
        else:
            self.boxes[box].open(id, body)
            self.asked[id] = body

    @rule(id=ids, at=steps, torn=st.booleans())
    def one_that_asks_may_be_killed(self, id, at, torn):
        if id not in self.asked:
            self.mortal.life("ask", at=at, torn=torn, id=id, body={"requester": "cyd"})
            if self.boxes[0].get(id) is not None:
                self.asked[id] = {"requester": "cyd"}

    @rule(id=ids, box=boxes, word=st.booleans())
    def answer(self, id, box, word):
        if id not in self.asked:
            with pytest.raises(TeamRefused):
                self.boxes[box].answer(id, {"approve": word})
            return
        assert self.boxes[box].answer(id, {"approve": word, "by": box}) == (id not in self.answered)
        self.answered.setdefault(id, {"approve": word, "by": box})

    @rule(id=ids, at=steps, torn=st.booleans())
    def one_that_answers_may_be_killed(self, id, at, torn):
        if id not in self.asked:
            return
        answer = self.mortal.life("answer", at=at, torn=torn, id=id, body={"approve": True, "by": "the dead"})
        if id not in self.answered and self.boxes[0].get_answer(id) is not None:
            self.answered[id] = {"approve": True, "by": "the dead"}
        assert "died" in answer or id in self.answered

    @rule(id=ids, box=boxes, at=st.none() | steps)
    def put_away(self, id, box, at):
        if id not in self.answered:
            return
        if at is not None:
            self.mortal.life("retire", at=at, id=id)
        self.boxes[box].retire(id)
        del self.asked[id], self.answered[id]
        shutil.rmtree(self.directory / "answered")

    @precondition(lambda self: self.asked)
    @rule(pick=st.integers(0, 9), content=st.sampled_from([b"", b"{", b"[1]", b"\xff\x00"]))
    def a_question_is_damaged(self, pick, content):
        """Nobody can answer it any more: it is set aside, and its asker may ask again."""
        id = list(self.asked)[pick % len(self.asked)]
        if id in self.answered:
            return
        (self.directory / f"{file_stem(id)}.json").write_bytes(content)
        self.damaged += 1
        del self.asked[id]

    @invariant()
    def all_boxes_see_the_same(self):
        for box in self.boxes:
            assert {body["id"] for body in box.open_requests()} == set(self.asked) - set(self.answered)
        for id in IDS:
            body = self.boxes[0].get(id)
            assert (body is None) == (id not in self.asked)
            assert body is None or {key: body[key] for key in self.asked[id]} == self.asked[id]
            said = self.boxes[1].get_answer(id)
            assert said == ({"id": id, "v": 1} | self.answered[id] if id in self.answered else None)

    @invariant()
    def every_damaged_one_has_its_copy(self):
        if self.directory.exists():
            assert sum(".bad." in name for name in os.listdir(self.directory)) == self.damaged


Requests.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
TestRequests = pytest.mark.promise("P4", "F04")(Requests.TestCase)
