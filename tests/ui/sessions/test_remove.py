"""A session is removed by its name, once a person says so, and never while something needs it."""

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.program import Program


def ids(program: Program) -> list[str]:
    return [path.stem for path in program.home.glob("projects/*/*.jsonl")]


@pytest.mark.finding("U12")
@pytest.mark.slow
def test_a_session_is_removed_with_all_its_files_and_others_stay(tmp_path, repo):
    with LoopbackModel.in_thread(["One.", "Two."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        assert program.run("-p", "one").returncode == 0
        [first] = ids(program)
        assert program.run("-p", "two").returncode == 0
        asked = program.run("sessions", "rm", first[:8])
        assert asked.returncode == 2 and "add --yes" in asked.stderr and len(ids(program)) == 2
        done = program.run("sessions", "rm", first[:8], "--yes")
        assert (done.returncode, done.stdout) == (0, f"Session {first[:8]} was removed.\n"), done.stderr
        assert len(ids(program)) == 1 and first not in ids(program)
        assert not list(program.home.rglob(f"{first}*"))
        again = program.run("sessions", "rm", first[:8], "--yes")
        assert again.returncode == 2 and "no session begins with" in again.stderr


@pytest.mark.finding("U12")
@pytest.mark.slow
def test_a_session_with_an_open_task_is_removed_only_with_force(tmp_path, repo):
    task = Answer(tools=[("TaskCreate", {"subject": "later", "description": "Do it later."})])
    with LoopbackModel.in_thread([task, "Noted.", "Still open."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.run("-p", "one")
        [first] = ids(program)
        refused = program.run("sessions", "rm", first[:8], "--yes")
        assert refused.returncode == 1 and "needs session" in refused.stderr and ids(program) == [first]
        assert program.run("sessions", "rm", first[:8], "--yes", "--force").returncode == 0
        assert ids(program) == []
