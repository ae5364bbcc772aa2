"""Plan mode of one agent: entered, left, and found again by the next process, whatever moment the kill took."""

import json
from pathlib import Path

import pytest

from teamwright.agent.plan_mode import PlanExit, PlanMode
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Access, Mode, Verdict

LEAVE = [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.DONT_ASK, Mode.BYPASS]


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        self.record = root / "session" / "plans" / "ada.json"

    def policy(self, mode: Mode = Mode.DEFAULT, above: Policy | None = None) -> Policy:
        made = Policy(mode, (), PermissionScope((self.work,), private=(self.root / "plans",), base=self.work))
        return made if above is None else made.narrow_to(above)

    def mode(self, policy: Policy, **more) -> PlanMode:
        return PlanMode(policy, self.root / "plans", self.record, **more)


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def may(policy: Policy, command: str, cwd: Path) -> Verdict:
    return policy.decide("Bash", Access(command=command, cwd=cwd)).verdict


@pytest.mark.promise("G5", "F47")
@pytest.mark.parametrize("before", LEAVE)
def test_the_mode_of_before_is_back_after_the_plan(place, before):
    policy = place.policy(before)
    mode = place.mode(policy)
    mode.enter()
    assert policy.mode is Mode.PLAN and may(policy, "touch x", place.work) is Verdict.DENY
    assert mode.leave() is before and policy.mode is before


@pytest.mark.promise("G5")
def test_a_granted_mode_comes_instead_and_entering_twice_is_entering_once(place):
    policy = place.policy()
    mode = place.mode(policy)
    first = mode.enter()
    assert mode.enter() == first and mode.exit_rule is PlanExit.FREELY
    assert mode.leave(Mode.ACCEPT_EDITS) is Mode.ACCEPT_EDITS
    assert mode.enter() != first  # one file a plan


@pytest.mark.promise("G5", "F46")
@pytest.mark.parametrize("given", [None, Mode.BYPASS, Mode.ACCEPT_EDITS])
def test_who_leaves_under_a_planning_caller_still_changes_nothing(place, given):
    lead = place.policy(Mode.BYPASS)
    own = place.policy(Mode.BUBBLE, lead)
    lead_mode, mode = PlanMode(lead, place.root / "plans", None), place.mode(own)
    lead_mode.enter()
    mode.enter()
    mode.leave(given)
    assert mode.is_inherited and not mode.is_on
    assert may(own, "touch x", place.work) is Verdict.DENY
    lead_mode.leave()
    assert not mode.is_inherited and may(own, "touch x", place.work) is Verdict.ALLOW


@pytest.mark.promise("G5")
def test_only_the_own_plan_is_written_while_planning(place):
    policy = place.policy(Mode.BYPASS)
    mode = place.mode(policy)
    file = mode.enter()
    assert policy.decide("Write", Access(writes=(file,))).verdict is Verdict.ALLOW
    other = PlanMode(place.policy(), place.root / "plans", None).enter()
    assert policy.decide("Write", Access(writes=(other,))).verdict is Verdict.DENY
    assert policy.decide("Write", Access(writes=(place.work / "a.py",))).verdict is Verdict.DENY
    mode.leave()
    assert policy.decide("Read", Access(reads=(file,))).verdict is Verdict.ALLOW


@pytest.mark.promise("G5", "F46")
def test_what_is_granted_with_a_plan_is_this_agents_alone_and_never_more_than_its_caller_may(place):
    lead = place.policy(Mode.DEFAULT)
    lead_mode = PlanMode(lead, place.root / "plans", None)
    child = place.policy(Mode.BUBBLE, lead)
    lead_mode.enter()
    lead_mode.leave(granted=["Bash(npm test)", "run the tests, please", "Bash(*)"])
    assert may(lead, "npm test", place.work) is Verdict.ALLOW
    assert may(lead, "npm test && git push", place.work) is Verdict.ASK
    assert may(lead, "rm -r x", place.work) is Verdict.ASK  # a rule about every command is none
    assert may(child, "npm test", place.work) is Verdict.ASK

    mode = place.mode(child)
    mode.enter()
    mode.leave(granted=["Bash(make)"])
    assert may(child, "make", place.work) is Verdict.ASK  # the lead would be asked itself
    lead.change_mode(Mode.BYPASS)
    assert may(child, "make", place.work) is Verdict.ALLOW
    lead.change_mode(Mode.PLAN)
    assert may(child, "make", place.work) is Verdict.DENY


@pytest.mark.promise("G5", "F55")
def test_the_next_process_goes_on_as_it_was_left(place):
    mode = place.mode(place.policy(Mode.ACCEPT_EDITS))
    file = mode.enter(PlanExit.APPROVED)
    mode.write("# Plan")
    mode.set_pending_request("plan_approval-1@ada@crew")
    policy = place.policy(Mode.ACCEPT_EDITS)
    again = place.mode(policy)
    assert again.restore()
    assert (again.is_on, again.file, again.exit_rule, again.pending_request) == (
        True,
        file,
        PlanExit.APPROVED,
        mode.pending_request,
    )
    assert again.read() == "# Plan" and policy.plan_file == file
    again.leave(granted=["Bash(make)"], call="c1")
    last, policy = None, place.policy(Mode.PLAN)  # the roster still says plan
    last = place.mode(policy)
    assert (
        last.restore() and policy.mode is Mode.ACCEPT_EDITS and last.ended_by_call == "c1" and not last.pending_request
    )
    assert may(policy, "make", place.work) is Verdict.ALLOW


@pytest.mark.promise("G5")
def test_a_mode_that_was_asked_for_now_comes_after_the_plan_that_was_left_open(place):
    place.mode(place.policy(Mode.BYPASS)).enter()
    policy = place.policy(Mode.DONT_ASK)
    mode = place.mode(policy)
    assert mode.restore() and policy.mode is Mode.PLAN
    assert mode.leave() is Mode.DONT_ASK


@pytest.mark.promise("G5", "P7")
@pytest.mark.parametrize("damage", ["", "{", "[]", '{"on": false}', '{"on": true, "file": "x", "before": "magic"}'])
def test_a_damaged_record_means_that_the_agent_plans(place, damage):
    place.record.parent.mkdir(parents=True)
    place.record.write_text(damage)
    policy = place.policy(Mode.BYPASS)
    mode = place.mode(policy)
    assert mode.restore() and policy.mode is Mode.PLAN and mode.exit_rule is PlanExit.APPROVED
    assert json.loads(place.record.read_text())["on"] is True


@pytest.mark.promise("G5")
def test_a_record_of_an_earlier_life_is_not_this_ones(place):
    place.mode(place.policy()).enter()
    policy = place.policy()
    mode = place.mode(policy)
    mode.remove_record()
    assert not mode.restore() and policy.mode is Mode.DEFAULT


@pytest.mark.promise("G5")
def test_a_person_that_changes_the_mode_ends_or_begins_plan_mode(place):
    policy = place.policy(Mode.ACCEPT_EDITS)
    mode = place.mode(policy)
    mode.enter()
    policy.change_mode(Mode.DEFAULT)
    mode.follow_mode_change()
    again = place.policy(Mode.DEFAULT)
    assert place.mode(again).restore() and again.mode is Mode.DEFAULT
    policy.change_mode(Mode.PLAN)
    mode.follow_mode_change(Mode.DEFAULT)
    assert mode.is_on and mode.exit_rule is PlanExit.APPROVED
    assert mode.leave() is Mode.DEFAULT


@pytest.mark.promise("G5", "F47")
def test_a_mode_that_somebody_set_meanwhile_is_not_undone_by_an_answer(place):
    policy = place.policy(Mode.BYPASS)
    mode = place.mode(policy)
    mode.enter()
    policy.change_mode(Mode.DEFAULT)
    assert mode.leave() is Mode.DEFAULT
