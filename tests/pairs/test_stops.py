"""A member is asked to stop while something else keeps it busy."""

import os
import signal

import pytest

from tests.support.waits import WAIT_S
from tests.ui.member_processes.house import until
from tests.ui.subagents.play import Held, agent, call

pytestmark = pytest.mark.usefixtures("unconfined")


@pytest.mark.slow
def test_a_stop_that_no_longer_waits_names_the_member_that_is_at_work_and_the_member_ends_later(detached):
    held = Held("Never sent.")
    session = detached([agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=[held])
    session.set(shutdown_objection_s=8)
    session.start("go")
    held.come()
    late = session.program.run("stop", f"ada@{session.team().name}", "--timeout", "1s")
    assert late.returncode == 1
    assert "ada has not ended yet; it was asked to stop" in late.stderr
    assert "does not answer" not in late.stderr
    until(lambda: not session.roster(), "the end of ada")
    code, _, err = session.end()
    assert code == 5 or code == 0, err
    assert "did not answer the shutdown request within 8 s" in session.told_lead()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["in-process", "detached"])
@pytest.mark.parametrize("whole_team", [False, True], ids=["member", "team"])
def test_a_member_whose_permission_question_waits_ends_without_a_deadline(detached, backend, whole_team):
    ada = [call("Bash", command="echo once >> made.txt"), "Done."]
    session = detached([agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=ada)
    session.backend = backend
    session.set(shutdown_objection_s=10 * WAIT_S, shutdown_timeout_s=10 * WAIT_S)
    session.lead = session.program.start("-p", "go", "--ask", "wait")
    until(lambda: session.of("request_opened", "ada"), "the question")
    name = session.team().name
    done = session.program.run("stop", name if whole_team else f"ada@{name}", timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    assert "1 more was left open" in session.program.run("requests").stdout or not whole_team
    code, _, err = session.end()
    assert code == (143 if whole_team else 0), err


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("backend", ["in-process", "detached"])
def test_a_run_without_persistence_that_a_signal_ends_leaves_no_team(detached, backend):
    held = Held("Never sent.")
    session = detached([agent("JOB ada", name="ada"), "Wait."], ada=[held])
    session.backend = backend
    session.set()
    session.start("go", "--no-session-persistence")
    held.come()
    session.lead.terminate()
    code, _, err = session.end()
    assert code == 143, err
    home = session.program.home
    assert [*home.glob("teams/*"), *home.glob("tasks/*"), *home.glob("projects/*/*")] == []


@pytest.mark.slow
def test_a_run_without_persistence_leaves_no_team_of_a_crashed_member_and_an_open_task(detached):
    held = Held("Never sent.")
    task = call("TaskCreate", subject="later", description="Later.", metadata={"for": ["zed"]})
    session = detached([task, agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=[held])
    session.set()
    session.start("go", "--no-session-persistence")
    held.come()
    [ada] = session.marked.members("ada")
    os.kill(ada, signal.SIGKILL)
    session.end()
    home = session.program.home
    assert [*home.glob("teams/*"), *home.glob("tasks/*"), *home.glob("projects/*/*")] == []
