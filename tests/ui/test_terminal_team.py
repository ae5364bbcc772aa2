"""A person at a real terminal whose lead has a team: addressing, stopping, leaving; and terminals of other kinds."""

import json
import os
import signal

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.support.waits import wait_until
from tests.ui.terminal_driver import CTRL_C, CTRL_D, Person
from tests.ui.test_terminal_session import all_told, at_terminal, bash, told, who

SPAWN = Answer(
    tools=[
        ("TaskCreate", {"subject": "wait at the gate", "description": "wait there"}),
        ("Agent", {"description": "start tester", "prompt": "Take task 1.", "name": "tester"}),
    ]
)
TAKE = Answer(tools=[("TaskUpdate", {"taskId": "1", "status": "in_progress", "owner": "tester"})])


def a_team(body: dict) -> Answer | str:
    """The lead spawns a tester and ends its turn; the tester takes the task and waits at the gate."""
    if who(body) == "lead":
        lead = all_told(body)
        if "again" in told(body):
            return bash("cat gate2")
        return SPAWN if "tool_use" not in lead else "The tester is at it."
    if "Take task 1." in told(body):
        return TAKE
    if "through" in told(body):
        return "Through the gate."
    return bash("cat gate") if "hurry" not in told(body) else "I hurry."


@pytest.fixture
def gates(repo):
    for name in ("gate", "gate2"):
        os.mkfifo(repo / name)
    return repo


def start_team(person: Person) -> None:
    person.says("go")
    person.sees("tester     joined")
    person.sees("The tester is at it.")
    person.sees("● tester ", "Bash cat gate")


def let_through(repo) -> None:
    with open(repo / "gate", "w") as pipe:
        pipe.write("through\n")


@pytest.mark.promise("C10", "E5")
@pytest.mark.slow
def test_members_work_on_while_the_person_writes_to_them_by_name(gates):
    with at_terminal(a_team, gates) as (person, server):
        start_team(person)
        person.says("/members")
        person.sees("  lead ", "idle", "default", "  tester ", "working", "default")
        person.sees("in-process: auto chose it, this terminal is not in tmux")
        person.says("@tester hurry up")
        person.sees("you → tester: hurry up")
        let_through(gates)
        person.sees("tester → lead:")
        member = [body for body in server.bodies if who(body) == "tester"]
        assert "hurry up" in json.dumps(member[-1]["messages"])


@pytest.mark.promise("F28")
@pytest.mark.slow
def test_ctrl_c_ends_the_leads_turn_and_no_members(gates):
    with at_terminal(a_team, gates) as (person, _):
        start_team(person)
        person.says("again")
        person.sees("● lead ", "Bash cat gate2")
        person.types(CTRL_C)
        person.sees("the lead's turn was ended; tester continues")
        let_through(gates)
        person.sees("tester → lead:")


@pytest.mark.promise("D4")
@pytest.mark.slow
def test_stop_ends_a_member_at_once_and_hands_its_task_back(gates):
    with at_terminal(a_team, gates) as (person, _):
        start_team(person)
        person.says("/stop tester")
        person.sees("tester was stopped; handed back to the list: #1 wait at the gate")
        person.says("/tasks")
        person.sees("· #1   wait at the gate")
        person.says("/stop tester")
        person.sees("nothing was stopped")
        with pytest.raises(OSError, match="No such device"):  # nobody reads the pipe any more
            os.close(os.open(gates / "gate", os.O_WRONLY | os.O_NONBLOCK))


@pytest.mark.promise("F28", "K8")
@pytest.mark.slow
def test_leaving_with_members_at_work_asks_and_stopping_them_is_said_in_the_exit_code(gates):
    with at_terminal(a_team, gates) as (person, _):
        start_team(person)
        person.types(CTRL_D)
        person.sees("tester is at work:", "w  wait", "s  stop", "l  leave", "leave? [w/s/l]")
        person.says("")
        person.says("/members")
        person.sees("  tester ", "working")
        person.types(CTRL_D)
        person.sees("leave? [w/s/l]", "leave? [w/s/l]")
        person.says("s")
        person.sees("cut off at work: tester", "continue: teamwright resume")
        assert person.leaves() == 5


@pytest.mark.promise("K8")
@pytest.mark.slow
def test_leaving_it_resumable_leaves_every_file(gates, own_home):
    with at_terminal(a_team, gates) as (person, _):
        start_team(person)
        person.says("/quit")
        person.sees("leave? [w/s/l]")
        person.says("l")
        assert person.leaves() == 5
    (config,) = (own_home / ".teamwright" / "teams").glob("*/config.json")
    assert [member["name"] for member in json.loads(config.read_text())["members"]] == ["team-lead", "tester"]
    (task,) = (own_home / ".teamwright" / "tasks").glob("*/1.json")
    assert json.loads(task.read_text())["owner"] == "tester"


@pytest.mark.promise("K8")
def test_waiting_sees_the_team_through_and_then_leaves(gates):
    def play(body):
        if who(body) == "lead" and "Through the gate" in all_told(body):
            return "All done."
        return a_team(body)

    with at_terminal(play, gates) as (person, _):
        start_team(person)
        person.types(CTRL_D)
        person.sees("leave? [w/s/l]")
        person.says("w")
        person.sees("waiting; Ctrl-C stays")
        let_through(gates)
        person.sees("All done.", "continue:")
        assert person.leaves() == 0


@pytest.mark.promise("F28")
@pytest.mark.slow
def test_waiting_can_be_taken_back_and_nobody_is_ended(gates):
    with at_terminal(a_team, gates) as (person, _):
        start_team(person)
        person.types(CTRL_D)
        person.sees("leave? [w/s/l]")
        person.says("w")
        person.sees("waiting; Ctrl-C stays")
        person.types(CTRL_C)
        person.sees("no longer waiting to leave; tester")
        person.says("/members")
        person.sees("  tester ", "working")


@pytest.mark.slow
def test_questions_of_members_name_them_and_wait_for_each_other(gates):
    def play(body):
        name = who(body)
        if name == "lead":
            two = [("Agent", {"description": "start", "prompt": "Make it.", "name": n}) for n in ("ada", "ben")]
            return Answer(tools=two) if "tool_use" not in all_told(body) else "They are at it."
        return bash(f"touch of-{name}") if "Make it." in told(body) else "Made."

    with at_terminal(play, gates) as (person, _):
        person.says("go")
        person.sees("wants to use Bash", "allow?")
        person.sees("2 requests wait")
        person.says("y")
        person.sees("wants to use Bash", "allow?", "wants to use Bash", "allow?")
        person.says("n not now")
        person.sees("refused")
        assert len(wait_until(lambda: list(gates.glob("of-*")), "the file of the member that was allowed")) == 1


# ── other terminals ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_dumb_terminal_gets_plain_lines_and_nothing_that_moves(repo):
    def play(body):
        return bash("touch made") if told(body).strip() == "go" else "Done it."

    with at_terminal(play, repo, TERM="dumb") as (person, _):
        person.says("go")
        person.sees("lead wants to use Bash", "touch made", "allow? [y/n")
        person.says("y")
        person.sees("lead       Bash touch made", "Done it.")
        person.types(CTRL_D)
        assert person.leaves() == 0
        assert "\x1b" not in person.raw
        assert (repo / "made").exists()


@pytest.mark.promise("F28")
def test_ctrl_c_on_a_dumb_terminal_ends_the_turn_too(repo):
    os.mkfifo(repo / "gate")

    def play(body):
        return bash("cat gate") if told(body).strip() == "go" else "Still here."

    with at_terminal(play, repo, TERM="dumb") as (person, _):
        person.says("go")
        with open(repo / "gate", "w"):
            person.types(CTRL_C)
            person.sees("the lead's turn was ended")
        person.says("there?")
        person.sees("Still here.")


def test_no_color_is_obeyed(repo):
    with at_terminal(lambda _body: "Plain.", repo, NO_COLOR="1") as (person, _):
        person.says("/stop nobody")
        person.says("go")
        person.sees("Plain.")
        painted = [f"\x1b[{code}m" for code in ("31", "32", "33", "0;31", "0;32", "0;33")]
        assert not [code for code in painted if code in person.raw]
        assert "38;5" not in person.raw


def test_a_window_of_a_few_columns_does_not_end_the_session(repo):
    def play(body):
        return bash("touch a-name-that-is-longer-than-the-window") if told(body).strip() == "go" else "漢字 done"

    with at_terminal(play, repo, size=(8, 12)) as (person, _):
        person.says("go")
        person.sees("allow?")
        person.says("n")
        person.sees("漢字")
        person.types(CTRL_D)
        assert person.leaves() == 0


def test_a_termination_saves_and_says_how_to_go_on(repo):
    os.mkfifo(repo / "gate")
    with at_terminal(lambda _body: bash("cat gate"), repo) as (person, _):
        person.says("go")
        with open(repo / "gate", "w"):
            os.kill(person.child.pid, signal.SIGTERM)
            person.sees("continue: teamwright resume")
            assert person.leaves() == 143


# ── trust ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def foreign(repo):
    """A repository that brings a rule which widens something."""
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash(touch *)"]}}))
    return repo


def play_touch(body):
    return bash("touch made") if told(body).strip() == "go" else "Done."


def with_trust_asked(repo, own_home, answer):
    person = Person("--model", "scripted:" + str(_script(own_home)), "go", cwd=repo)
    person.sees("has entries that can run", "Bash(touch *)", ".claude/settings.json", "trust them?")
    assert not (own_home / ".teamwright" / "projects").exists()
    person.says(answer)
    return person


def _script(home):
    path = home / "touch.toml"
    path.write_text(
        '[[agent.lead.turn]]\n[[agent.lead.turn.call]]\ntool = "Bash"\n'
        'input = { command = "touch made", description = "make it" }\n'
        '[[agent.lead.otherwise]]\nsay = "Finished here."\n'
    )
    return path


@pytest.mark.parametrize("answer", ["n", "y", "o"])
@pytest.mark.slow_after(1)
def test_a_foreign_repository_is_asked_about_before_anything_begins(foreign, own_home, answer):
    person = with_trust_asked(foreign, own_home, answer)
    if answer == "n":
        person.sees("allow?")
        person.says("n")
    person.sees("Finished here.")
    person.types(CTRL_D)
    assert person.leaves() == 0
    assert (foreign / "made").exists() == (answer != "n")
    assert (own_home / ".teamwright" / "trust.json").exists() == (answer == "y")


@pytest.mark.finding("T21")
@pytest.mark.promise("D8")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=lambda one: one.name)
@pytest.mark.slow_after(1)
def test_a_window_that_closes_or_a_terminated_lead_keeps_the_places_of_members_at_rest(repo, own_home, number):
    def play(body: dict) -> Answer | str:
        if who(body) != "lead":
            return "I rest now."
        return SPAWN if "tool_use" not in all_told(body) else "I wait."

    with at_terminal(play, repo) as (person, _server):
        person.says("go")
        person.sees("I rest now.")
        os.kill(person.child.pid, number)
        person.sees("continue: teamwright resume")
        assert person.leaves() == 143
    [config] = own_home.glob(".teamwright/teams/*/config.json")
    assert [one["name"] for one in json.loads(config.read_text())["members"]] == ["team-lead", "tester"]
    assert list(json.loads((config.parent / "team.json").read_text())["lives"]) == ["tester"]
