"""Members in processes of their own are asked to stop, interrupted and stopped; a team is deleted when none is left."""

import json
import re
from itertools import chain, repeat

import pytest

from tests.support.model_requests import newest_text
from tests.support.notices import notices
from tests.ui.member_processes.house import BACKENDS, BYPASS, until
from tests.ui.program import told_results
from tests.ui.subagents.play import Held, agent, call
from tests.ui.terminal_driver import Person

pytestmark = pytest.mark.promise("D3", "D4", "F20", "F21", "F23")


def newest(body):
    return newest_text(body)


def asks(why):
    return call("SendMessage", to="bob", message={"type": "shutdown_request", "reason": why})


class Objects:
    """Objects to the first request to stop, and says nothing against the second."""

    def __init__(self):
        self.requests = []

    def __call__(self, body):
        found = [id for id in re.findall(r"shutdown-\d+@bob", json.dumps(body["messages"])) if id not in self.requests]
        if not found:
            return "I go on."
        self.requests.append(found[0])
        if len(self.requests) > 1:
            return "All right."
        answer = {"type": "shutdown_response", "request_id": found[0], "approve": False, "reason": "tests still run"}
        return call("SendMessage", to="lead", message=answer)


@pytest.mark.slow
def test_a_member_objects_stays_as_it_was_and_ends_when_it_is_asked_again(scene):
    seen = []

    def lead(body):
        seen.append(newest(body))
        if "bob's report." in seen[-1]:
            return asks("all is done")
        return asks("now really") if notices("shutdown_rejected", seen[-1]) else "I wait."

    here = scene(chain([agent("JOB bob", name="bob")], repeat(lead, 30)), bob=["bob's report.", *[Objects()] * 6])
    bob = here.play.parts["bob"][1]
    here.start()
    code, _, err = here.end()
    assert code == 0, err
    assert len(bob.requests) == 2
    assert "tests still run" in "".join(seen)
    sent = [one["wire"] for one in here.of("message_sent") if one.get("wire")]
    assert [sent.count(wire) for wire in ("shutdown_rejected", "shutdown_approved", "teammate_terminated")] == [1, 1, 1]
    assert [one["state"] for one in here.of("member_changed", "bob")][-1] == "completed"
    assert {one["incarnation"] for one in here.of("member_changed", "bob")} == {1}
    here.once()


@pytest.mark.slow
def test_a_team_is_deleted_when_no_member_lives_and_nothing_of_it_is_left(scene):
    def lead(body):
        words = newest(body)
        if "bob's report." in words:
            return call("TeamDelete")
        if "has live members" in "".join(one["text"] for one in told_results(body)[-1:]):
            return asks("all is done")
        return call("TeamDelete") if notices("teammate_terminated", words) else "I wait."

    makes = [call("TeamCreate", team_name="crew"), agent("JOB bob", name="bob")]
    here = scene(chain(makes, repeat(lead, 30)), bob=["bob's report.", "All right."])
    here.start()
    code, _, err = here.end()
    assert code == 0, err
    results = [one["text"] for one in told_results(here.play.asked()[-1])]
    [refused, deleted] = [
        text for text in results if "has live members" in text or '"deleted"' in text or "rchive" in text
    ]
    assert "bob (idle)" in refused
    assert "bob" not in deleted
    home = here.program.home
    assert not here.marked.pids()
    assert not [*home.glob("teams/*"), *home.glob("tasks/*")]
    assert not [path for path in home.rglob("*") if path.is_socket()]
    here.once()


@pytest.mark.finding("T11")
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["in-process", *BACKENDS], indirect=True)
def test_a_member_that_the_lead_stops_at_work_has_not_failed_and_a_strict_run_succeeds(scene):
    held, stops = Held("never said"), Held(call("TaskStop", task_id="ann"))
    here = scene([agent("JOB ann", name="ann"), stops, *["I am done."] * 9], ann=[held])
    here.start("work", "--strict", "--output-format", "json")
    held.come()
    stops.come()
    stops.go()
    code, out, err = here.end()
    held.go()
    assert code == 0, err
    [ann] = [one for one in json.loads(out)["team"]["members"] if one["name"] == "ann"]
    assert ann["state"] != "failed" and ann["error"] is None
    assert "failed" not in err


@pytest.mark.slow_after(1)
def test_a_person_interrupts_and_stops_one_of_them_by_name(scene):
    held, again = Held("too late"), Held("much too late")
    lead = [call("TaskCreate", subject="the job", description="do it"), agent("JOB ann", name="ann"), *["I wait."] * 9]
    takes = call("TaskUpdate", taskId="1", status="in_progress", owner="ann")
    here = scene(lead, ann=[takes, held, again])
    person = Person("--model", "sonnet", BYPASS, cwd=here.program.cwd, **here.program.environment)
    try:
        person.sees("/help", "\n>")
        person.says("work")
        held.come()
        person.sees("I wait.")
        pid = here.marked.member("ann")
        person.says("/interrupt ann")
        until(lambda: [one for one in here.of("member_changed", "ann") if one["state"] == "idle"][1:])
        assert here.marked.member("ann") == pid
        person.says("@ann go on")
        again.come()
        person.says("/stop ann")
        person.sees("ann was stopped; handed back to the list: #1 the job")
        assert not here.marked.members()
        assert here.tasks() == [("pending", "")]
        assert here.roster() == []
        person.says("/stop ann")
        person.sees("nothing was stopped")
        until(lambda: here.of("turn_ended", "team-lead")[1:])  # the end of a member wakes the lead once
        person.says("/quit")
        assert person.leaves() == 0
    finally:
        person.child.close(force=True)
        held.go()
        again.go()
    here.once()
