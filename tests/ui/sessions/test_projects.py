"""The data of a project are listed, and removed as a whole once a person says so."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall
from tests.support.waits import WAIT_S, wait_until
from tests.ui.program import Program

pytestmark = pytest.mark.finding("U12")

TASK = Answer(tools=[("TaskCreate", {"subject": "later", "description": "Do it later."})])
TEAM = Answer(tools=[("TeamCreate", {"team_name": "crew", "description": "A crew."})])


@pytest.fixture
def program(tmp_path, repo):
    """A home with a session with a team and an open task in `repo`, and a session of another directory."""
    other = tmp_path / "other"
    other.mkdir()
    with LoopbackModel.in_thread([TEAM, TASK, "Noted.", "Still open.", "Elsewhere."]) as server:
        made = Program(repo, tmp_path / "home", server.url)
        made.run("-p", "one")
        Program(other, made.home, server.url).run("-p", "two")
        yield made


def listed(program):
    return {one["path"]: one for one in json.loads(program.run("projects", "--json").stdout)}


@pytest.mark.slow
def test_projects_are_listed_with_their_sessions_teams_and_open_tasks(program, repo, tmp_path):
    found = listed(program)
    assert set(found) == {str(repo), str(tmp_path / "other")}
    assert found[str(repo)]["teams"] == ["crew"] and found[str(repo)]["open_tasks"] == ["later"]
    assert found[str(repo)]["size"] > 0 and found[str(repo)]["running"] == []
    assert str(repo)[-20:] in program.run("projects").stdout


@pytest.mark.slow
def test_all_data_of_a_project_are_removed_and_those_of_others_stay(program, repo, tmp_path):
    [session] = listed(program)[str(repo)]["sessions"]
    done = program.run("projects", "rm", str(repo), "--yes")
    assert done.returncode == 0, done.stderr
    for word in ("Data of", session[:8], "team     crew", "open     later", "were removed"):
        assert word in done.stdout
    assert set(listed(program)) == {str(tmp_path / "other")}
    kept = [path for path in program.home.rglob("*") if session[:8] in path.name or "crew" in path.name]
    assert [path for path in kept if "guards" not in path.parts] == []
    again = program.run("projects", "rm", str(repo), "--yes")
    assert again.returncode == 2 and "there are no data of" in again.stderr


@pytest.mark.slow
def test_without_a_person_the_removal_needs_a_flag_and_lists_the_data_first(program, repo):
    asked = program.run("projects", "rm", ".")
    assert asked.returncode == 2 and "add --yes" in asked.stderr and "team     crew" in asked.stdout
    assert str(repo) in listed(program)


@pytest.mark.slow
def test_trust_in_the_repository_is_removed_with_its_data(program, repo):
    (repo / ".teamwright").mkdir()
    (repo / ".teamwright/settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash(make:*)"]}}))
    assert program.run("trust", "--yes").returncode == 0
    assert listed(program)[str(repo)]["trusted"] is True
    assert "trust    in the entries" in program.run("projects", "rm", ".", "--yes").stdout
    assert str(repo) not in (program.home / "trust.json").read_text()


@pytest.mark.slow
def test_a_project_with_a_running_session_stays(tmp_path, repo):
    with LoopbackModel.in_thread([Stall()]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        run = program.start("-p", "one")
        try:
            wait_until(lambda: listed(program).get(str(repo), {}).get("running"))
            refused = program.run("projects", "rm", ".", "--yes")
            assert refused.returncode == 3 and "run now" in refused.stderr
            assert str(repo) in listed(program)
        finally:
            run.terminate()
            run.communicate(timeout=WAIT_S)
