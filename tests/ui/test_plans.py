"""The program in plan mode: a real shell, real files, nobody at the terminal."""

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.program import Program, told_results

WRITE = Answer("I write.", tools=[("Write", {"file_path": "new.txt", "content": "x"})])
SHELL = Answer("I try.", tools=[("Bash", {"command": "echo x > new.txt"})])
HAND_IN = Answer("The plan.", tools=[("ExitPlanMode", {"plan": "# Plan\nWrite new.txt."})])


def play(tmp_path, repo, *flags, turns):
    with LoopbackModel.in_thread([*turns, "Done."]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "Plan it.", *flags)
    return done, told_results(server.bodies[-1]), server


@pytest.mark.promise("G5", "F44")
def test_with_nobody_there_the_plan_is_handed_in_in_vain_and_nothing_is_written(tmp_path, repo):
    flags = ("--permission-mode", "plan", "--allowed-tools", "Write,Bash")
    done, results, _ = play(tmp_path, repo, *flags, turns=[WRITE, SHELL, HAND_IN, WRITE])
    assert done.returncode == 0 and done.stdout == "Done.\n", done.stderr
    assert [r.get("is_error", False) for r in results] == [True] * 4
    assert "plan" in results[0]["text"] and "no user is present to ask" in results[2]["text"]
    assert not (repo / "new.txt").exists()
    (plan,) = (tmp_path / "home" / "plans").glob("*.md")
    assert plan.read_text() == "# Plan\nWrite new.txt." and plan.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("G5", "F47")
@pytest.mark.slow
def test_a_flag_approves_without_a_look_and_the_list_of_tools_stays_as_it_was(tmp_path, repo):
    flags = ("--permission-mode", "plan", "--plan-approval", "auto", "--allowed-tools", "Write", "--verbose")
    done, results, server = play(tmp_path, repo, *flags, turns=[WRITE, HAND_IN, WRITE])
    assert done.returncode == 0, done.stderr
    assert [r.get("is_error", False) for r in results] == [True, False, False]
    assert (repo / "new.txt").read_text() == "x"
    assert "approved without a look: the setting plan_approval is auto (--plan-approval)" in done.stderr
    assert len({str(body["tools"]) for body in server.bodies}) == 1


def test_an_approver_that_does_not_exist_starts_nothing(tmp_path, repo):
    done, _, server = _refused(tmp_path, repo)
    assert done.returncode == 2 and "does not approve plans" in done.stderr and not server.bodies


def _refused(tmp_path, repo):
    with LoopbackModel.in_thread(["Done."]) as server:
        return Program(repo, tmp_path / "home", server.url).run("-p", "x", "--plan-approval", "me"), [], server
