"""Plans of members: handed in, sent back, approved, and seen through a kill: the same wherever the member lives."""

import json
import os
import re
import signal

import pytest

from teamwright import Notice
from tests.parity.house import PROCESS, Hold, call, house, write

pytestmark = pytest.mark.slow_after(1)

PLAN_ID = re.compile(r"plan_approval-\d+@ann@crew")


def hand_in(text: str):
    return [call("ExitPlanMode", plan=text)]


class Leading:
    """A lead that answers each plan that it reads of, once: the first one is sent back."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def __call__(self, body):
        found = [id for id in PLAN_ID.findall(json.dumps(body["messages"])) if id not in self.known]
        if not found:
            return "I wait."
        self.known.append(found[0])
        said = {"type": "plan_approval_response", "request_id": found[0], "approve": len(self.known) > 1}
        return call("SendMessage", to="ann", message={**said, "feedback": "name the files"})


@pytest.mark.promise("G5", "F47")
async def test_a_plan_is_sent_back_with_a_reason_then_approved_by_the_lead_and_carried_out(tmp_path, backend):
    ann = [write("early"), *hand_in("# One"), *hand_in("# Two"), write("made"), "carried out"]
    lead = [Leading()] * 9
    async with house(tmp_path, backend, {"ann": ann, "lead": lead}, permission_mode="acceptEdits") as crew:
        member = await crew.spawn("ann", mode="plan")
        await crew.until(lambda: member.state == "awaiting")
        await crew.team.run("Look at the plan.")
        await crew.until(lambda: (crew.work / "made").exists())
        await crew.quiet()
        told = crew.said_to("ann")
        mail = [json.loads(one["text"]) for one in crew.mail("ann") if '"plan_approval_response"' in one["text"]]
        asked = [json.loads(one["text"]) for one in crew.mail("team-lead") if '"plan_approval_request"' in one["text"]]
        assert member.mode == "acceptEdits" and member.state == "idle"
    assert "name the files" in told and "Your plan was approved" in told
    assert [one["planContent"] for one in asked] == ["# One", "# Two"]
    assert [(one["approved"], one.get("permissionMode")) for one in mail] == [(False, None), (True, "acceptEdits")]
    assert not (crew.work / "early").exists()


@pytest.mark.promise("G5", "P4", "F44")
async def test_a_person_approves_a_plan_in_the_one_queue(tmp_path, backend):
    ann = [*hand_in("# One"), *hand_in("# Two"), write("made")]
    async with house(tmp_path, backend, {"ann": ann}, plan_approval="human", permission_mode="acceptEdits") as crew:
        await crew.spawn("ann", mode="plan")
        first = await crew.request()
        assert (first.kind, first.owner, first.what) == ("plan", "ann", "# One")
        await first.deny("smaller")
        second = await crew.request()
        assert "smaller" in crew.said_to("ann")
        await second.allow()
        await crew.until(lambda: (crew.work / "made").exists())
        await crew.quiet()


@pytest.mark.promise("G5", "F47")
async def test_a_setting_approves_at_once_and_says_so(tmp_path, backend):
    ann = [*hand_in("# One"), write("made")]
    async with house(tmp_path, backend, {"ann": ann}, plan_approval="auto", permission_mode="acceptEdits") as crew:
        await crew.spawn("ann", mode="plan")
        await crew.asked("ann", 3)
        await crew.quiet()
    assert (crew.work / "made").exists()
    assert any("approved without a look" in one.text for one in crew.of(Notice))


@pytest.mark.promise("G5", "P4")
async def test_a_plan_that_nobody_answers_is_denied_in_time_and_the_member_told(tmp_path, backend):
    given = {"ann": [*hand_in("# One"), "I wait."]}
    async with house(tmp_path, backend, given, settings={"ask_timeout_s": 1}) as crew:
        await crew.spawn("ann", mode="plan")
        await crew.asked("ann", 2)
        await crew.until(lambda: "no answer came in time" in crew.said_to("ann"))


@pytest.mark.promise("G5", "G1")
async def test_a_person_that_sets_another_mode_ends_the_waiting(tmp_path, backend):
    given = {"ann": [*hand_in("# One"), write("made")]}
    async with house(tmp_path, backend, given, permission_mode="acceptEdits") as crew:
        member = await crew.spawn("ann", mode="plan")
        await crew.until(lambda: member.state == "awaiting")
        await member.set_mode("acceptEdits")
        await crew.until(lambda: (crew.work / "made").exists())
        await crew.quiet()


@pytest.mark.promise("G5", "D8", "P3")
async def test_the_end_of_a_member_that_waits_takes_its_plan_along(tmp_path, backend):
    given = {"ann": [*hand_in("# One"), Hold("never")]}
    async with house(tmp_path, backend, given, plan_approval="human") as crew:
        await crew.spawn("ann", mode="plan")
        request = await crew.request()
        if backend == PROCESS:
            os.kill(crew.team.session.team.find("ann").pid, signal.SIGKILL)
        else:
            await crew.team.stop("ann")
        await crew.until(crew.closed)
        assert not await request.allow()
        await crew.quiet()
    assert crew.closed() == [("ann", "deny", "cancelled")]
