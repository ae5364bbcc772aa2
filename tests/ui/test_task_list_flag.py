"""`--task-list NAME`: the next session goes on with the list of the last, and whoever looks finds it by its name."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.teams.member_processes.started_members import nobody_left
from tests.ui.member_processes.house import BYPASS, house, kill
from tests.ui.program import Program, error_of, told_results
from tests.ui.subagents.play import Held, agent, call


@pytest.mark.promise("B9")
@pytest.mark.slow
def test_a_run_finds_the_tasks_that_another_run_left_in_the_list_of_that_name(tmp_path, repo):
    adds = Answer(tools=[("TaskCreate", {"subject": "left for others", "description": "d"})])
    looks = Answer(tools=[("TaskList", {})])
    with LoopbackModel.in_thread([adds, "Added.", looks, "Seen."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        assert program.run("-p", "add one", "--task-list", "common").returncode == 0
        assert program.run("-p", "look", "--taskList", "common").returncode == 0
        assert "left for others" in json.dumps(told_results(server.bodies[-1]))
    shown = program.run("tasks", "common")
    assert shown.returncode == 0 and "left for others" in shown.stdout
    assert (tmp_path / "home" / "tasks" / "common" / ".shared").exists()


@pytest.mark.promise("B9", "F64")
@pytest.mark.parametrize("name", ["../x", "a/b", ""])
@pytest.mark.slow_after(1)
def test_a_list_whose_name_could_leave_its_directory_is_refused_before_anything_is_made(tmp_path, repo, name):
    program = Program(repo, tmp_path / "home", "http://127.0.0.1:9")
    done = program.run("-p", "hi", "--task-list", name)
    assert (done.returncode, error_of(done)[0]) == (2, "bad-name")
    assert not (tmp_path / "home" / "projects").exists()


@pytest.mark.slow
@pytest.mark.promise("B9", "D8")
@pytest.mark.finding("T22")
@pytest.mark.parametrize("backend", ["in-process", "detached"])
def test_a_team_on_a_named_list_stays_on_it_after_a_kill_and_a_resume_without_the_flag(repo, own_home, backend):
    def adds(subject: str) -> Answer:
        return call("TaskCreate", subject=subject, description="d", metadata={"for": ["nobody"]})

    held, home = Held("too late"), own_home / ".teamwright"
    lead = [agent("JOB ann", name="ann"), "I wait."]
    with nobody_left() as marked, house(repo, home, backend, marked, lead, ann=[held]) as here:
        here.program.env.update(marked.env)
        here.start("work", "--task-list", "common")
        held.come()
        here.kill_lead()
        if backend == "detached":
            kill(marked.member("ann"))
        held.go()
        here.play.lead[:] = [adds("by the lead"), "I wait."]
        here.play.parts["ann"][:] = [adds("by ann"), "ann's report."]
        team = here.team().name
        done = here.program.run("resume", team, "-p", "Go on.", BYPASS)
        assert done.returncode == 0, done.stderr
        files = home.glob("tasks/*/[0-9]*.json")
        found = {(path.parent.name, json.loads(path.read_bytes())["subject"]) for path in files}
        assert found == {("common", "by the lead"), ("common", "by ann")}
        for view in (("tasks", team), ("teams", "show", team), ("status", team)):
            shown = here.program.run(*view).stdout
            assert "by the lead" in shown and "by ann" in shown, (view, shown)
