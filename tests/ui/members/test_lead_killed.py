"""The lead's process is killed: members stay for the grace, a resume takes them over as they are, else begins anew."""

import pytest

from tests.teams.processes.lodge import await_end
from tests.ui.agents.play import Held, agent, call
from tests.ui.members.house import until

pytestmark = [pytest.mark.promise("D8", "E6", "C7a"), pytest.mark.heavy]


def pair(held):
    """A lead with ann, who is in a model call, and bob, who rests."""
    return {
        "lead": [agent("JOB ann", name="ann"), agent("JOB bob", name="bob"), "I wait.", "I wait on."],
        "ann": [held, "ann's report."],
        "bob": ["bob's report."],
    }


def test_a_resume_within_the_grace_takes_over_the_processes_that_live(scene, tmp_path):
    held = Held(call("Bash", command=f"echo ran >> {tmp_path}/ran"))
    here = scene(**pair(held))
    here.start()
    held.come()
    here.play.comes_back(3)
    until(lambda: "bob's report." in here.told_lead())
    before = [here.marked.member("ann"), here.marked.member("bob")]
    here.kill_lead()
    held.go()
    until(lambda: "tool_use" in here.told("ann"))  # what needs no lead goes on; calls are counted by the next one
    done = here.resume()
    assert done.returncode == 0, done.stderr
    assert [one["pid"] for one in here.of("session_opened")][1:], "a second life of the lead"
    assert (tmp_path / "ran").read_text() == "ran\n"
    lives = [one for one in here.events() if one["type"] == "member_changed" and one["member"] in {"ann", "bob"}]
    assert {one["life"] for one in lives} == {1}
    assert "ann's report." in here.told_lead()
    assert here.told_lead().count("bob's report.") == 1
    assert len(here.play.asked("ann")) == 2
    assert len(here.play.asked("bob")) == 1
    assert len(here.of("round_ended", "ann")) == 2
    here.once()
    for name, pid in zip(("ann", "bob"), before, strict=True):
        logs = (here.transcript.with_suffix("") / f"members/{name}/events.jsonl").read_text()
        assert logs.count('"session_opened"') == 1, f"{name} had one process"
        assert await_end(pid)


def test_after_the_grace_members_keep_their_places_and_a_resume_starts_them_again(scene, tmp_path):
    held = Held(call("Bash", command=f"echo ran >> {tmp_path}/ran"))
    here = scene(**pair(held))
    here.set(grace_s=1)
    here.start()
    held.come()
    until(lambda: "bob's report." in here.told_lead())
    here.kill_lead()
    held.go()
    here.marked.gone()
    assert here.roster() == ["ann", "bob"]
    done = here.resume()
    assert done.returncode == 0, done.stderr
    assert "interrupted" in here.told("ann"), here.told("ann")
    assert not (tmp_path / "ran").exists()
    assert "ann's report." in here.told_lead()
    assert here.told_lead().count("bob's report.") == 1
    assert len(here.play.asked("bob")) == 1
    assert len(here.of("round_ended", "ann")) == len(here.play.asked("ann"))
    here.once()
