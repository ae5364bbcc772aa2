"""`teamwright ask`: a question from another terminal, answered while the agents work, and never remembered."""

import json
import signal
import stat

import pytest

from teamwright.testing.model_server_replies import Stall, Status
from tests.support.waits import WAIT_S
from tests.ui.outside_team import TEAM, team_at_work
from tests.ui.program import error_of

pytestmark = [pytest.mark.usefixtures("unconfined"), pytest.mark.finding("S4")]

ADA = f"ada@{TEAM}"


def reply(asked: str) -> Status | Stall | str:
    if "broken" in asked:
        return Status(400, "no such thing")
    return Stall() if "slow" in asked else "I read **setup.py**."


def questions_left(team) -> list[str]:
    return [path.name for path in (team.directory / "requests").iterdir() if path.name.startswith("ask-")]


@pytest.mark.slow_after(1)
def test_a_lead_and_a_working_member_answer_another_terminal_and_nothing_of_it_is_left(tmp_path, repo):
    with team_at_work(tmp_path, repo, in_passing=reply) as team:
        done = team.run("ask", TEAM, "What do you read?")
        assert (done.returncode, done.stdout.strip()) == (0, "I read **setup.py**."), done.stderr
        team.until("user (another terminal) asks the lead a question in passing")
        said = team.run("ask", ADA, "-", "--json", stdin="What do you read?\n")
        assert json.loads(said.stdout) == {"team": TEAM, "member": "ada", "text": "I read **setup.py**."}
        team.until("user (another terminal) asks ada a question in passing")
        assert not questions_left(team)
        transcripts = [path for path in team.home.glob("projects/*/*/**/*.jsonl") if path.name != "events.jsonl"]
        assert transcripts and not any("What do you read?" in path.read_text() for path in transcripts)
        [first, second] = [event for event in team.events() if event["type"] == "side_call_ended"]
        assert (first["by"], first["member"], second["member"]) == ("user (another terminal)", "team-lead", "ada")
        team.let_go()
        assert team.ended()[0] == 0


@pytest.mark.slow_after(2)
def test_every_question_that_is_not_answered_says_why(tmp_path, repo):
    with team_at_work(tmp_path, repo, in_passing=reply) as team:
        for words, expected in {
            (f"adda@{TEAM}", "Who?"): (2, "unknown-member"),
            (f"*@{TEAM}", "Who?"): (2, "usage"),
            (TEAM, " "): (2, "usage"),
            (TEAM, "x" * 20_001): (2, "usage"),
            (TEAM, "two", "words"): (2, "usage"),
            ("nobody", "Who?"): (2, "unknown-team"),
            (TEAM, "broken"): (1, "model-failed"),
        }.items():
            done = team.run("ask", *words)
            assert (done.returncode, error_of(done)[0]) == expected, done.stderr
        agent = team.program.environment | {"TEAMWRIGHT": "1"}
        refused = team.run("ask", TEAM, "Who?", env=agent)
        assert (refused.returncode, error_of(refused)[0]) == (2, "not-for-agents")
        assert not questions_left(team)


@pytest.mark.slow_after(2)
def test_a_question_that_waits_too_long_is_withdrawn_and_a_lead_that_dies_ends_the_wait(tmp_path, repo):
    with team_at_work(tmp_path, repo, in_passing=reply) as team:
        late = team.run("ask", TEAM, "slow", "--timeout", "0.5s")
        assert (late.returncode, error_of(late)[0]) == (4, "limit")
        assert not questions_left(team)
        waiting = team.program.start("ask", TEAM, "slow")
        for _ in range(2):
            team.until("asks the lead a question in passing")
        [request] = [name for name in questions_left(team) if name.endswith(".json")]
        assert stat.S_IMODE((team.directory / "requests" / request).stat().st_mode) == 0o600
        team.process.send_signal(signal.SIGKILL)
        _, err = waiting.communicate(timeout=WAIT_S)
        assert waiting.returncode == 1
        assert "ended before lead answered" in err
        assert not questions_left(team)
        gone = team.run("ask", TEAM, "Who?")
        assert (gone.returncode, error_of(gone)[0]) == (1, "failed")
