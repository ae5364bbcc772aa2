"""One table of health: each state, what stands beside it, and which comes first."""

import pytest

from teamwright.protocol.ids import LEAD
from teamwright.teams.health.standing import Asked, MemberStanding, Standing
from teamwright.teams.health.table import TABLE, WORDS, OpenTask, Seen, health, seen_of
from teamwright.teams.lifecycle import LIMITED

CASES = [
    (Seen("failed", why="broke", alive=False), ("failed", "broke")),
    (Seen("crashed", why="its process 7 ended", alive=False), ("crashed", "its process 7 ended")),
    (Seen("killed", why="by the lead"), ("killed", "by the lead")),
    (Seen("completed", why="shut down"), ("completed", "shut down")),
    (Seen("completed", why="the run is over", failed="no credit"), ("failed", "no credit")),
    (Seen("idle", failed="no credit", blockers="#3"), ("failed", "no credit")),
    (Seen("suspended", alive=False, why="left"), ("suspended", "left")),
    (Seen("working", alive=False, stalled=True), ("dead", "its process is gone")),
    (Seen("idle", alive=False, why="no lead"), ("dead", "no lead")),
    (Seen("stopping", asks="permission for Bash"), ("stopping", "was asked to stop, and may object")),
    (Seen("awaiting", why="the lead to answer its plan", asks="x"), ("awaiting", "the lead to answer its plan")),
    (Seen("blocked", why="permission for Edit"), ("blocked", "permission for Edit")),
    (Seen("working", asks="permission for Bash rm"), ("blocked", "permission for Bash rm")),
    (Seen("working", doing="pause", what="the rate limit"), ("waiting", "the rate limit")),
    (Seen("working", doing="model", stalled=True), ("stalled", "nothing comes of the model")),
    (Seen("working", stalled=True), ("stalled", "nothing happens, though it is at work")),
    (Seen("pending"), ("working", "starts")),
    (Seen("working", doing="tool", what="Bash make"), ("working", "Bash make")),
    (Seen("working", doing="model"), ("working", "the model answers")),
    (Seen("working", blockers="#3"), ("working", "")),
    (Seen("idle", blockers="#3 (ben)", answer_of="ben"), ("waiting", "#3 (ben)")),
    (Seen("idle", answer_of="ben"), ("waiting", "an answer of ben")),
    (Seen("idle", why=LIMITED, answer_of="ben"), ("waiting", LIMITED)),
    (Seen("idle"), ("idle", "")),
    (Seen("levitating"), ("unknown", "")),
]


@pytest.mark.promise("D7", "F24")
@pytest.mark.parametrize(("seen", "expected"), CASES, ids=lambda one: "-".join(one) if isinstance(one, tuple) else "")
def test_a_member_is_in_the_first_state_of_the_table_that_holds(seen, expected):
    assert health(seen) == expected


def test_every_row_of_the_table_is_tried():
    assert {state for _, (state, _) in CASES} == set(WORDS)
    hit = {next(row for row in TABLE if row.holds(seen)).on for seen, _ in CASES}
    assert len(hit) == len(TABLE)


def standing_with(*members: MemberStanding) -> Standing:
    return Standing(members={member.name: member for member in members})


def state_of(name, standing, tasks=None, **more):
    return health(seen_of(standing.members[name], standing, tasks or {}, **more))


@pytest.mark.promise("D7", "F44")
def test_a_member_whose_sub_agent_asks_is_blocked_and_who_asks_for_what_is_said():
    standing = standing_with(MemberStanding("ada", "working"), MemberStanding("ben", "working"))
    asks = Asked("ada › Explore: find", "permission", "Bash", "git push\n", 1.0, owner="ada", deadline=2.0)
    standing.requests = {"one": asks, "two": Asked("ada", "plan", "ExitPlanMode", "# Plan", 2.0, owner="ada")}
    said = "permission for Bash git push, asked by ada › Explore: find, and 1 more"
    assert state_of("ada", standing) == ("blocked", said)
    assert state_of("ben", standing) == ("working", "")
    del standing.requests["one"]
    assert state_of("ada", standing) == ("blocked", "approval of its plan")


@pytest.mark.promise("D7")
def test_an_idle_member_waits_for_the_owner_of_what_blocks_all_of_its_tasks():
    standing = standing_with(MemberStanding("ada", "idle"), MemberStanding("ben", "working"))
    tasks = {"3": OpenTask("ben", ()), "4": OpenTask("ada", ("3",)), "5": OpenTask("ada", ("3", "9"))}
    assert state_of("ada", standing, tasks) == ("waiting", "#3 (ben), #9")
    assert state_of("ada", standing, tasks | {"6": OpenTask("ada", ())}) == ("idle", "")


@pytest.mark.promise("D7")
def test_it_waits_for_an_answer_of_a_living_teammate_and_of_the_lead_only_with_a_task_in_hand():
    ada = MemberStanding("ada", "idle", wrote_to=("ben", LEAD, "cyd"))
    standing = standing_with(ada, MemberStanding("ben", "idle"), MemberStanding("cyd", "failed"))
    assert state_of("ada", standing) == ("waiting", "an answer of ben")
    assert state_of("ada", standing, {"1": OpenTask("ada", ())}) == ("waiting", "an answer of ben, lead, cyd")
    ada.wrote_to = (LEAD,)
    assert state_of("ada", standing) == ("idle", "")


def test_an_open_request_is_shown_in_one_line():
    standing = standing_with(MemberStanding("ada", "working"))
    standing.requests["r"] = Asked("ada", "permission", "Bash", "rm -r build\nmore", 1.0)
    assert state_of("ada", standing) == ("blocked", "permission for Bash rm -r build")
    standing.requests["r"] = Asked("ada", "question", "AskUserQuestion", "red or blue?", 1.0)
    assert state_of("ada", standing) == ("blocked", "the user's answer: red or blue?")


@pytest.mark.promise("P3")
def test_who_lived_in_a_process_before_this_one_and_is_not_heard_of_is_dead():
    standing = standing_with(MemberStanding("ada", "working", lost=True))
    assert state_of("ada", standing).state == "dead"
    assert state_of("ada", standing_with(MemberStanding("ada", "idle")), alive=False, why="gone") == ("dead", "gone")
