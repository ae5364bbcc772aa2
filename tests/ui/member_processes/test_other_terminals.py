"""Another terminal looks at members in processes of their own, and ends them: with their lead, and when it is gone."""

import json
import sys

import pytest

from tests.support.leftovers import await_end
from tests.teams.backends import terminal
from tests.ui.member_processes.house import house, until
from tests.ui.subagents.play import Held, agent, call

pytestmark = pytest.mark.promise("D4", "D7", "F20", "F21", "F24")


def two(held):
    lead = [agent("JOB ann", name="ann"), agent("JOB bob", name="bob"), *["I wait."] * 20]
    return {"lead": lead, "ann": [call("Bash", command="echo hello"), held, "ann's end."], "bob": ["bob's report."]}


def views(here, *args):
    done = here.program.run(*args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_what_every_terminal_is_told_of_them_is_true(scene):
    held = Held("ann's report.")
    here = scene(**two(held))
    here.start()
    held.come()
    until(lambda: "bob's report." in here.told_lead())
    [team] = views(here, "status")
    states = {one["name"]: one["state"] for one in team["members"]}
    assert states["ann"] == "working"
    assert states["bob"] in {"idle", "waiting"}
    assert {one["name"]: one["state"] for one in views(here, "teams", "show", here.team().name)["members"]} == {
        "lead": "live",
        "ann": "live",
        "bob": "live",
    }
    [used] = here.of("tool_called", "ann")
    said = here.program.run("log", here.team().name, "--call", used["call"])
    assert "hello" in said.stdout, said.stderr
    held.go()
    assert here.end()[0] == 0
    here.once()


@pytest.mark.slow
def test_what_every_terminal_is_told_of_those_whose_lead_was_killed_is_true_and_they_keep_their_places(scene):
    held = Held("ann's report.")
    here = scene(**two(held))
    here.start()
    held.come()
    until(lambda: "bob's report." in here.told_lead())
    here.kill_lead()
    [team] = views(here, "status")
    stand = {one["name"]: (one["state"], one["on"]) for one in team["members"]}
    assert stand["ann"] == stand["bob"] == ("waiting", "its lead: the lead's process is gone")
    assert stand["lead"][0] == "dead"
    states = {one["name"]: one["state"] for one in views(here, "teams", "show", here.team().name)["members"]}
    assert states == {"lead": "not running", "ann": "waits for its lead", "bob": "waits for its lead"}
    held.go()
    here.marked.members("ann")
    stopped = here.program.run("stop", here.team().name)
    assert stopped.returncode == 0
    assert "members ann, bob" in stopped.stdout
    assert not here.marked.pids()
    states = {one["name"]: one["state"] for one in views(here, "teams", "show", here.team().name)["members"]}
    assert set(states.values()) == {"not running"}
    assert here.resume().returncode == 0  # they kept their places
    here.once()


@pytest.mark.slow
@pytest.mark.parametrize("now", [["--now"], []], ids=["at once", "asked"])
def test_one_of_them_is_stopped_from_outside(scene, now):
    held = Held("ann's report.")
    here = scene(**two(held))
    here.start()
    held.come()
    until(lambda: "bob's report." in here.told_lead())
    bob, ann = here.marked.member("bob"), here.marked.member("ann")
    stopped = here.program.run("stop", f"bob@{here.team().name}", *now)
    assert stopped.returncode == 0, stopped.stderr
    assert "bob has ended" in stopped.stdout
    assert await_end(bob, 0)
    assert here.marked.member("ann") == ann
    assert here.roster() == ["ann"]
    again = here.program.run("stop", f"bob@{here.team().name}")
    assert "has ended already" in again.stdout, again.stderr
    held.go()
    assert here.end()[0] == 0
    here.once()


@pytest.mark.slow
def test_a_removed_team_leaves_no_process_of_a_member_that_waits(scene):
    held = Held("ann's report.")
    here = scene(**two(held))
    here.start()
    held.come()
    until(lambda: "bob's report." in here.told_lead())
    name = here.team().name
    alive = here.program.run("teams", "rm", name, "--force")
    assert alive.returncode != 0, "its lead lives"
    assert len(here.marked.members()) == 2
    here.kill_lead()
    removed = here.program.run("teams", "rm", name, "--force")
    assert removed.returncode == 0, removed.stderr
    assert not here.marked.pids()
    assert not list(here.program.home.glob("teams/*/config.json"))
    held.go()


@pytest.mark.slow
def test_the_pane_of_a_recipe_is_closed_too_when_a_team_is_removed_that_nobody_leads(repo, own_home, tmp_path, marked):
    held, panes = Held("ann's report."), tmp_path / "panes"
    panes.mkdir()
    cli = [sys.executable, "-I", terminal.__file__, str(panes)]
    adapter = {
        "open": [*cli, "open", "--hold", "--mark", "{mark}", "--", "{argv}"],
        "alive": [*cli, "has", "{mark}"],
        "close": [*cli, "close", "{id}"],
    }
    with house(repo, own_home / ".teamwright", "played", marked, **two(held)) as here:
        here.program.settings(members={"backend": "played", "adapters": {"played": adapter}})
        here.start()
        held.come()
        until(lambda: "bob's report." in here.told_lead())
        assert len(terminal.listed(panes)) == 2
        here.kill_lead()
        removed = here.program.run("teams", "rm", here.team().name, "--force")
        assert removed.returncode == 0, removed.stderr
        assert not terminal.listed(panes)
        held.go()
