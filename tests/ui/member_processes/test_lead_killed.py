"""The lead's process is killed: members stay for the grace, a resume takes them over as they are, else begins anew."""

import json

import pytest

from tests.support.leftovers import await_end
from tests.ui.member_processes.house import BYPASS, until
from tests.ui.subagents.play import Held, agent, call

pytestmark = pytest.mark.promise("D8", "E6", "C7a")


def pair(held):
    """A lead with ann, who is in a model call, and bob, who rests."""
    return {
        "lead": [agent("JOB ann", name="ann"), agent("JOB bob", name="bob"), "I wait.", "I wait on."],
        "ann": [held, "ann's report."],
        "bob": ["bob's report."],
    }


SERVERS = {"mcpServers": {"gone": {"command": "/bin/false", "env": {"X_TOKEN": "hush-0123456789"}}}}


def files_with_token(here):
    return [path for path in here.program.home.rglob("*") if path.is_file() and b"hush-0123" in path.read_bytes()]


@pytest.mark.finding("P17")
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["at work", pytest.param("before the start", marks=pytest.mark.slow)])
def test_a_token_of_the_command_line_is_in_no_file_after_a_start_nor_after_a_resume(scene, moment):
    held = Held("ann's report.")
    here = scene([agent("JOB ann", name="ann"), "I wait.", "I wait on."], ann=[held, "ann's report."])
    here.set(grace_s=1)
    here.start("work", "--mcp-config", json.dumps(SERVERS))
    held.come()
    assert not files_with_token(here)
    if moment == "at work":
        held.go()
        assert here.end()[0] == 0
        return
    here.kill_lead()
    held.go()
    here.marked.gone()
    left = here.transcript.with_suffix("") / "members/ann/spawn.json"
    left.write_text(json.dumps(SERVERS))  # as a lead that was killed before the process could read it leaves it
    assert here.resume().returncode == 0
    assert not files_with_token(here)


@pytest.mark.slow_after(1)
def test_a_resume_within_the_grace_takes_over_the_processes_that_live(scene, tmp_path):
    held = Held(call("Bash", command=f"echo ran >> {tmp_path}/repo/ran"))
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
    assert (tmp_path / "repo/ran").exists(), here.told("ann")
    assert (tmp_path / "repo/ran").read_text() == "ran\n"
    lives = [one for one in here.events() if one["type"] == "member_changed" and one["member"] in {"ann", "bob"}]
    assert {one["incarnation"] for one in lives} == {1}
    assert "ann's report." in here.told_lead()
    assert here.told_lead().count("bob's report.") == 1
    assert len(here.play.asked("ann")) == 2
    assert len(here.play.asked("bob")) == 1
    assert len(here.of("model_call_ended", "ann")) == 2
    here.once()
    for name, pid in zip(("ann", "bob"), before, strict=True):
        logs = (here.transcript.with_suffix("") / f"members/{name}/events.jsonl").read_text()
        assert logs.count('"session_opened"') == 1, f"{name} had one process"
        assert await_end(pid)


@pytest.mark.slow
def test_after_the_grace_members_keep_their_places_and_a_resume_starts_them_again(scene, tmp_path):
    held = Held(call("Bash", command=f"echo ran >> {tmp_path}/repo/ran"))
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
    assert not (tmp_path / "repo/ran").exists()
    assert "ann's report." in here.told_lead()
    assert here.told_lead().count("bob's report.") == 1
    assert len(here.play.asked("bob")) == 1
    assert len(here.of("model_call_ended", "ann")) == len(here.play.asked("ann"))
    here.once()


def waiting(here):
    """What waits for a person now."""
    done = here.program.run("requests", "--wait", "30s", "--json")
    assert done.returncode == 0, done.stderr
    [one] = json.loads(done.stdout)
    return one


@pytest.mark.slow
@pytest.mark.parametrize("answered", ["before the resume", "after the resume"])
def test_what_a_member_asked_when_the_lead_was_killed_is_answered_once(scene, tmp_path, answered):
    runs = call("Bash", command=f"echo ran >> {tmp_path}/repo/ran")
    here = scene([agent("JOB ann", name="ann"), *["I wait."] * 9], ann=[runs, "ann's report."])
    here.set(unattended_requests="wait")
    here.lead = here.program.start("-p", "work")
    first = waiting(here)
    assert (first["owner"], first["tool"]) == ("ann", "Bash")
    ann = here.marked.member("ann")
    here.kill_lead()
    if answered == "before the resume":
        allowed = here.program.run("requests", "allow", first["id"])
        assert "the answer counts when you resume" in allowed.stdout
        here.lead = here.program.start("resume", here.session, "-p")
    else:
        here.lead = here.program.start("resume", here.session, "-p")
        again = waiting(here)
        assert (again["owner"], again["what"]) == ("ann", first["what"])
        assert here.marked.member("ann") == ann
        allowed = here.program.run("requests", "allow", again["id"])
    assert allowed.returncode == 0, allowed.stderr
    code, _, err = here.end()
    assert code == 0, err
    assert (tmp_path / "repo/ran").read_text() == "ran\n"
    assert [one["verdict"] for one in here.of("request_closed", "ann")].count("allow") == 1
    assert "ann's report." in here.told_lead()
    assert len(here.play.asked("ann")) == 2
    here.once()


@pytest.mark.slow
def test_another_session_that_adopts_the_team_starts_its_members_again(scene):
    held = Held("too late")
    here = scene(**{**pair(held), "ann": [held, "ann's report."]})
    here.start()
    held.come()
    until(lambda: "bob's report." in here.told_lead())
    before, home = here.marked.members(), here.program.home
    here.kill_lead()
    done = here.program.run("teams", "adopt", here.team().name, "-p", "See it through.", BYPASS)
    held.go()
    assert done.returncode == 0, done.stderr
    assert len(before) == 2
    assert all(await_end(pid, 0) for pid in before)
    [told] = home.glob("projects/*/*/agents/ann.jsonl")
    assert told.read_text().count(r"\nJOB ann\n") == 1
    assert "ann's report." in told.read_text()
    assert "too late" not in told.read_text()
    leads = [path for path in home.glob("projects/*/*.jsonl") if "See it through." in path.read_text()]
    assert len(leads) == 1
    assert "ann's report." in leads[0].read_text()
    assert len(here.play.asked("bob")) == 1
