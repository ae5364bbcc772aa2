"""What waits for an answer when a run, a member or a lead ends is asked again, and its call runs once."""

import os
import signal

import pytest

from tests.support.leftovers import await_end
from tests.support.waits import WAIT_S
from tests.ui.member_processes.house import until
from tests.ui.subagents.play import Held, agent, call

pytestmark = pytest.mark.usefixtures("unconfined")

ONCE = "echo once >> made.txt"
CHOICES = [{"label": "A", "description": "the first"}, {"label": "B", "description": "the second"}]
QUESTION = call("AskUserQuestion", questions=[{"question": "Which?", "header": "H", "options": CHOICES}])
WAITS = ("--ask", "wait")


def asked(session, member=""):
    return [one for one in session.of("request_opened") if member in ("", one["member"])]


def ended(session, expected):
    assert session.lead.wait(WAIT_S) == expected
    session.lead.communicate()


def answered_by_a_resume(session, *answer):
    """Resume, answer what is asked again from another terminal, and wait for the end."""
    before = len(asked(session))
    session.lead = session.program.start("resume", session.session, "-p", *WAITS)
    until(lambda: asked(session)[before:], "the same request")
    done = session.program.run("requests", "allow", asked(session)[-1]["request"], *answer)
    assert done.returncode == 0, done.stderr
    code, _, err = session.end()
    assert code == 0, err


def ends(how):
    """How a run ends here: the flags of its start, the signal that ends it, the exit code."""
    cases = {
        "term": ((), signal.SIGTERM, 143),
        "int": ((), signal.SIGINT, 130),
        "time": (("--timeout", "15s"), None, 4),
    }
    return cases[how]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("how", ["term", "int", "time"])
def test_a_question_of_the_lead_is_asked_again_after_every_end_of_its_run(detached, how):
    flags, number, code = ends(how)
    session = detached([QUESTION, "Thanks."])
    session.lead = session.program.start("-p", "go", *WAITS, *flags)
    until(lambda: asked(session), "the question")
    if number is not None:
        session.lead.send_signal(number)
    ended(session, code)
    listed = session.program.run("requests").stdout
    assert "1 more was left open" in listed
    answered_by_a_resume(session, "--answer", "B")
    [result] = session.play.results()
    assert "B" in result


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("backend", ["in-process", "detached"])
def test_a_request_of_a_member_is_asked_again_after_a_signal_ended_the_run(detached, repo, backend):
    session = detached(
        [agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=[call("Bash", command=ONCE), "Done."]
    )
    session.backend = backend
    session.set()
    session.lead = session.program.start("-p", "go", *WAITS)
    until(lambda: asked(session, "ada"), "the request")
    session.lead.terminate()
    ended(session, 143)
    answered_by_a_resume(session)
    assert (repo / "made.txt").read_text() == "once\n"
    [result] = session.play.results("ada")
    assert "interrupted" not in result


@pytest.mark.slow
def test_a_request_of_a_member_is_asked_again_after_a_spent_cap_of_the_run(detached, repo):
    held = Held("Wait.")
    session = detached([agent("JOB ada", name="ada"), held, "Seen.", "ok"], ada=[call("Bash", command=ONCE), "Done."])
    session.lead = session.program.start("-p", "go", *WAITS, "--max-turns", "2")
    until(lambda: asked(session, "ada"), "the request")
    held.answer = call("TaskList")
    held.go()
    ended(session, 4)
    answered_by_a_resume(session)
    assert (repo / "made.txt").read_text() == "once\n"


@pytest.mark.slow
def test_a_member_that_outlived_its_lead_in_vain_asks_again_after_the_resume(detached, repo):
    session = detached(
        [agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=[call("Bash", command=ONCE), "Done."]
    )
    session.set(grace_s=1)
    session.lead = session.program.start("-p", "go", *WAITS)
    until(lambda: asked(session, "ada"), "the request")
    [ada] = session.marked.members("ada")
    session.kill_lead()
    assert await_end(ada)
    answered_by_a_resume(session)
    assert (repo / "made.txt").read_text() == "once\n"


@pytest.mark.slow
def test_a_member_whose_process_was_killed_asks_again_when_the_lead_starts_it_again(detached, repo):
    lead = [agent("JOB ada", name="ada"), "Wait.", agent("go on", name="ada"), "Wait.", "Seen.", "ok"]
    session = detached(lead, ada=[call("Bash", command=ONCE), "Done.", "Done."])
    session.lead = session.program.start("-p", "go", *WAITS)
    until(lambda: asked(session, "ada"), "the request")
    [ada] = session.marked.members("ada")
    os.kill(ada, signal.SIGKILL)
    until(lambda: asked(session, "ada")[1:], "the same request")
    done = session.program.run("requests", "allow", asked(session, "ada")[-1]["request"])
    assert done.returncode == 0, done.stderr
    code, _, err = session.end()
    assert code == 0, err
    assert (repo / "made.txt").read_text() == "once\n"


@pytest.mark.slow
def test_a_background_sub_agent_of_a_member_asks_again_after_a_signal_ended_the_run(detached, repo):
    session = detached(
        [agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"],
        ada=[agent("JOB sub", run_in_background=True), "Wait.", "Seen."],
        sub=[call("Bash", command=ONCE), "It is made."],
    )
    session.set()
    session.lead = session.program.start("-p", "go", *WAITS)
    until(lambda: asked(session), "the request")
    session.lead.terminate()
    ended(session, 143)
    answered_by_a_resume(session)
    assert (repo / "made.txt").read_text() == "once\n"
    assert "It is made." in session.told("ada")
