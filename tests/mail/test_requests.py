"""Requests: each meets one answer, the first, whoever gives it."""

import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.errors import InvalidName, TeamRefused, UsageError
from teamwright.requests.request_store import RequestStore, file_stem, parse_file_stem
from tests.support.waits import WAIT_S

ID = "plan_approval-1795215239629@alice@demo team"


@pytest.fixture
def box(tmp_path):
    return RequestStore(tmp_path / "team" / "requests")


@pytest.mark.promise("P4")
def test_a_request_carries_who_asks_whom_in_which_life_since_when_and_until_when(box):
    path = box.open(ID, {"requester": "alice", "target": "team-lead", "incarnation": 3, "plan": "x"})
    assert path.name == "plan_approval-1795215239629@alice@demo%20team.json"
    body = box.get(ID)
    assert list(body) == ["id", "v", "requester", "target", "incarnation", "opened_at", "deadline", "plan"]
    assert (body["id"], body["requester"], body["incarnation"], body["deadline"]) == (ID, "alice", 3, None)
    assert body["opened_at"] > 1_700_000_000_000
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("P4")
def test_the_first_answer_counts_and_a_later_one_is_told_so(box):
    box.open(ID, {"requester": "alice"})
    assert box.get_answer(ID) is None
    assert box.answer(ID, {"approve": True})
    assert not box.answer(ID, {"approve": False})
    assert box.get_answer(ID)["approve"] is True
    assert box.open_requests() == []


def test_a_request_of_a_later_version_keeps_its_unknown_keys_until_it_is_retired(box):
    path = box.open(ID, {"requester": "alice"})
    later = json.loads(path.read_bytes()) | {"v": 9, "theirs": {"x": [1]}}
    path.write_text(json.dumps(later))
    assert box.get(ID) == later and box.open_requests() == [later]
    box.answer(ID, {"approve": True, "why": "later"})
    box.retire(ID)
    body, answer = box.get_retired(ID)
    assert body == later and answer["why"] == "later"


@pytest.mark.promise("P4")
def test_of_many_answers_at_once_one_counts(box):
    box.open(ID, {})
    won = []
    answerers = [
        threading.Thread(target=lambda n=n: won.append(n) if box.answer(ID, {"by": n}) else None) for n in range(12)
    ]
    for one in answerers:
        one.start()
    for one in answerers:
        one.join(WAIT_S)
    assert won == [box.get_answer(ID)["by"]]
    assert len(os.listdir(box.directory)) == 2


def test_an_answer_to_what_nobody_asked_is_refused_and_leaves_no_file(box):
    box.open("other", {})
    with pytest.raises(TeamRefused):
        box.answer(ID, {"approve": True})
    assert os.listdir(box.directory) == ["other.json"]


def test_open_requests_are_listed_by_age(box):
    assert box.open_requests() == []
    for name, moment in (("b", 2), ("c", 3), ("a", 1)):
        box.open(name, {"opened_at": moment})
    box.answer("b", {})
    assert [body["id"] for body in box.open_requests()] == ["a", "c"]


def test_opening_the_same_again_changes_nothing_and_another_under_its_id_is_refused(box):
    path = box.open(ID, {"requester": "alice"})
    before = path.read_bytes()
    assert box.open(ID, {"requester": "alice"}) == path
    with pytest.raises(UsageError):
        box.open(ID, {"requester": "mallory"})
    assert path.read_bytes() == before


@pytest.mark.promise("F04")
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_damaged_request_is_set_aside_and_the_others_are_listed(box, content):
    box.open("fine", {})
    path = box.open(ID, {})
    path.write_bytes(content)
    assert [body["id"] for body in box.open_requests()] == ["fine"]
    assert not path.exists()
    assert [copy.read_bytes() for copy in box.directory.glob("*.bad.*")] == [content]
    with pytest.raises(TeamRefused):
        box.answer(ID, {})


STRANGE = {
    "a directory": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a link in a circle": lambda path: path.symlink_to(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "brackets without end": lambda path: path.write_bytes(b"[" * 200_000),
    "no id": lambda path: path.write_bytes(b'{"kind": "permission"}'),
    "the id of another": lambda path: path.write_text(json.dumps({"id": ID, "kind": "permission"})),
    "an id that cannot be": lambda path: path.write_text(json.dumps({"id": "x" * 1_000})),
    "a huge file": lambda path: (path.touch(), os.truncate(path, 10**11)),
}


@pytest.mark.promise("P4")
@pytest.mark.parametrize("what", STRANGE)
def test_what_strangers_put_beside_them_hides_no_request_and_holds_nobody_up(box, what):
    box.open(ID, {"requester": "alice"})
    box.open("b-2", {"requester": "bob"})
    box.answer("b-2", {"approve": True})
    for name in ("x.json", "y.json", "y.answer.json", "z.late.0123abcd"):
        STRANGE[what](box.directory / name)
    assert [body["id"] for body in box.open_requests()] == [ID]
    assert [request["id"] for request, _ in box.answered_requests()] == ["b-2"]
    assert box.take_late_answers() == []
    assert box.answer(ID, {"approve": True})


def test_a_request_that_is_over_can_be_put_away(box):
    box.open(ID, {})
    box.answer(ID, {"approve": True})
    box.retire(ID)
    box.retire(ID)
    assert box.get(ID) is None
    assert box.open_requests() == []
    assert len(os.listdir(box.directory / "answered")) == 2


@pytest.mark.parametrize("odd", ["", "x" * 300])
def test_an_id_that_cannot_be_a_name_is_refused(box, odd):
    with pytest.raises(InvalidName):
        box.open(odd, {})
    assert not box.directory.exists()


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15))
def test_every_id_has_a_name_of_its_own_that_stays_in_the_directory(text):
    stem = file_stem(text)
    assert parse_file_stem(stem) == text
    assert "/" not in stem
    assert stem[0] != "."
    assert not stem.endswith(".answer")


def test_an_id_that_ends_like_an_answer_is_no_answer(box):
    box.open("x", {})
    box.open("x.answer", {})
    assert box.get_answer("x") is None
    assert len(box.open_requests()) == 2


@pytest.mark.promise("P4", "G4")
def test_who_looked_before_a_request_was_retired_and_answers_after_it_does_not_count_and_leaves_nothing(tmp_path):
    box = RequestStore(tmp_path / "requests")
    box.open(ID, {"kind": "permission"})
    slow = RequestStore(box.directory)
    seen = slow.get(ID)
    slow.get = lambda _id: seen  # it looked, and was held up
    assert box.answer(ID, {"by": "first"})
    box.retire(ID)
    assert not slow.answer(ID, {"by": "second"})
    assert [path.name for path in box.directory.iterdir()] == ["answered"]
    assert box.get_retired(ID)[1]["by"] == box.get_answered(ID)[1]["by"] == "first"


@pytest.mark.promise("P4", "G4")
def test_late_answers_are_noted_beside_the_requests_and_taken_once(tmp_path):
    box = RequestStore(tmp_path / "requests")
    box.open(ID, {"kind": "permission"})
    box.record_late_answer(ID, {"by": "second"})
    box.record_late_answer(ID, {"by": "third"})
    assert [body["id"] for body in box.open_requests()] == [ID], "what is late is no request and no answer"
    assert sorted(body["by"] for body in box.take_late_answers()) == ["second", "third"]
    assert box.take_late_answers() == [] and box.get_answer(ID) is None
