"""One table of health: each state, what stands beside it, and which comes first."""

import pytest

from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import MemberState, parse_state
from teamwright.protocol.pending_request import PendingRequest
from teamwright.team_records.life_cycle import RATE_LIMITED
from teamwright.team_records.team_status import MemberStatus, TeamStatus
from teamwright.teams.member_state import STATE_TABLE, OpenTask, apply_state_table, with_state


def facts(state: str, **more) -> MemberStatus:
    return MemberStatus("ada", parse_state(state), **more)


CASES = [
    (facts("failed", detail="broke", lost=True), ("failed", "broke")),
    (facts("crashed", detail="its process 7 ended", lost=True), ("crashed", "its process 7 ended")),
    (facts("killed", detail="by the lead"), ("killed", "by the lead")),
    (facts("completed", detail="shut down"), ("completed", "shut down")),
    (facts("completed", detail="the run is over", failed="no credit"), ("failed", "no credit")),
    (facts("idle", failed="no credit", blockers="#3"), ("failed", "no credit")),
    (facts("suspended", lost=True, detail="left"), ("suspended", "left")),
    (facts("working", lost=True, stalled=True), ("dead", "its process is gone")),
    (facts("idle", lost=True, detail="no lead"), ("dead", "no lead")),
    (facts("stopping", pending_request="permission for Bash"), ("stopping", "was asked to stop, and may object")),
    (
        facts("awaiting", detail="the lead to answer its plan", pending_request="x"),
        ("awaiting", "the lead to answer its plan"),
    ),
    (facts("blocked", detail="permission for Edit"), ("blocked", "permission for Edit")),
    (facts("working", pending_request="permission for Bash rm"), ("blocked", "permission for Bash rm")),
    (facts("working", doing="pause", what="the rate limit"), ("waiting", "the rate limit")),
    (facts("working", doing="model", stalled=True), ("stalled", "nothing comes of the model")),
    (facts("working", stalled=True), ("stalled", "nothing happens, though it is at work")),
    (facts("pending"), ("working", "starts")),
    (facts("working", doing="tool", what="Bash make"), ("working", "Bash make")),
    (facts("working", doing="model"), ("working", "the model answers")),
    (facts("working", doing="prompt"), ("working", "waits for the answer to begin")),
    (facts("working", doing="prompt", what="41 %"), ("working", "reads the prompt 41 %")),
    (facts("working", blockers="#3"), ("working", "")),
    (facts("idle", blockers="#3 (ben)", awaited_answer="ben"), ("waiting", "#3 (ben)")),
    (facts("idle", awaited_answer="ben"), ("waiting", "an answer of ben")),
    (facts("idle", detail=RATE_LIMITED, awaited_answer="ben"), ("waiting", RATE_LIMITED)),
    (facts("idle"), ("idle", "")),
    (facts("levitating"), ("unknown", "")),
]


@pytest.mark.promise("D7", "F24")
@pytest.mark.parametrize(("seen", "expected"), CASES, ids=lambda one: "-".join(one) if isinstance(one, tuple) else "")
def test_a_member_is_in_the_first_state_of_the_table_that_holds(seen, expected):
    shown = apply_state_table(seen)
    assert (shown.state, shown.reason) == expected


def test_every_row_of_the_table_is_tried():
    assert {state for _, (state, _) in CASES} == {row.state for row in STATE_TABLE}
    hit = {next(row for row in STATE_TABLE if row.applies(seen)).reason for seen, _ in CASES}
    assert len(hit) == len(STATE_TABLE)


def standing_with(*members: MemberStatus) -> TeamStatus:
    return TeamStatus(members={member.name: member for member in members})


def state_of(name, standing, tasks=None, **more):
    shown = with_state(standing.members[name], standing, tasks or {}, **more)
    return shown.state, shown.reason


@pytest.mark.promise("D7", "F44")
def test_a_member_whose_sub_agent_asks_is_blocked_and_who_asks_for_what_is_said():
    standing = standing_with(MemberStatus("ada", MemberState.WORKING), MemberStatus("ben", MemberState.WORKING))
    asks = PendingRequest("r1", "permission", "ada", "ada › Explore: find", "Bash", "git push\n", deadline=2.0)
    standing.requests = {"one": asks, "two": PendingRequest("r2", "plan", "ada", "ada", "ExitPlanMode", "# Plan")}
    said = "permission for Bash git push, asked by ada › Explore: find, and 1 more"
    assert state_of("ada", standing) == ("blocked", said)
    assert state_of("ben", standing) == ("working", "")
    del standing.requests["one"]
    assert state_of("ada", standing) == ("blocked", "approval of its plan")


@pytest.mark.promise("D7")
def test_an_idle_member_waits_for_the_owner_of_what_blocks_all_of_its_tasks():
    standing = standing_with(MemberStatus("ada", MemberState.IDLE), MemberStatus("ben", MemberState.WORKING))
    tasks = {"3": OpenTask("ben", ()), "4": OpenTask("ada", ("3",)), "5": OpenTask("ada", ("3", "9"))}
    assert state_of("ada", standing, tasks) == ("waiting", "#3 (ben), #9")
    assert state_of("ada", standing, tasks | {"6": OpenTask("ada", ())}) == ("idle", "")


@pytest.mark.promise("D7")
def test_it_waits_for_an_answer_of_a_living_teammate_and_of_the_lead_only_with_a_task_in_hand():
    ada = MemberStatus("ada", MemberState.IDLE, wrote_to=("ben", LEAD, "cyd"))
    standing = standing_with(ada, MemberStatus("ben", MemberState.IDLE), MemberStatus("cyd", MemberState.FAILED))
    assert state_of("ada", standing) == ("waiting", "an answer of ben")
    assert state_of("ada", standing, {"1": OpenTask("ada", ())}) == ("waiting", "an answer of ben, lead, cyd")
    ada.wrote_to = (LEAD,)
    assert state_of("ada", standing) == ("idle", "")


def test_an_open_request_is_shown_in_one_line():
    standing = standing_with(MemberStatus("ada", MemberState.WORKING))
    standing.requests["r"] = PendingRequest("r", "permission", "", "ada", "Bash", "rm -r build\nmore")
    assert state_of("ada", standing) == ("blocked", "permission for Bash rm -r build")
    standing.requests["r"] = PendingRequest("r", "question", "", "ada", "AskUserQuestion", "red or blue?")
    assert state_of("ada", standing) == ("blocked", "the user's answer: red or blue?")


@pytest.mark.promise("P3")
def test_who_lived_in_a_process_before_this_one_and_is_not_heard_of_is_dead():
    standing = standing_with(MemberStatus("ada", MemberState.WORKING, lost=True))
    assert state_of("ada", standing)[0] == "dead"
    assert state_of("ada", standing_with(MemberStatus("ada", MemberState.IDLE)), gone="gone") == ("dead", "gone")
