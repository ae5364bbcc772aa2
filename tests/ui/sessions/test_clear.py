"""`/clear` at a real terminal: the lead begins anew, everybody and everything else goes on."""

import json

import pytest

from teamwright.agent.compaction_texts import CLEARED_NOTE
from teamwright.testing.model_server_replies import Answer
from tests.ui.terminal_driver import CTRL_C, CTRL_D, Person
from tests.ui.test_terminal_session import all_told, at_terminal, gate, told, who

__all__ = ["gate"]


def lines_of(home) -> list[dict]:
    (path,) = (home / ".teamwright" / "projects").glob("*/*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.promise("H6", "F18", "F56", "K8")
@pytest.mark.slow
def test_the_lead_begins_anew_and_its_team_goes_on_and_is_heard(repo, gate, own_home):
    def play(body):
        if who(body) != "lead":
            return Answer(tools=[("Bash", {"command": "cat gate"})]) if "open" not in all_told(body) else "Ada is done."
        text = told(body)
        if "secret plan" in text and "spawned" not in text and "Agent" not in text:
            task = ("TaskCreate", {"subject": "paint it", "description": "blue"})
            start = ("Agent", {"description": "hold", "prompt": "Hold the gate.", "name": "ada"})
            return Answer(tools=[task, start])
        if "what do you know" in text:
            return "I know nothing of before." if "secret plan" not in all_told(body) else "I know the secret plan."
        return "Heard." if "Ada is done." in text else "They work."

    with at_terminal(play, repo, "--dangerously-skip-permissions") as (person, server):
        person.says("/clear")
        person.sees("nothing was said yet")
        person.says("my secret plan")
        person.sees("ada", "joined", "They work.", "\n>")
        person.says("/clear")
        person.sees("begins with an empty conversation", "1 member and 1 open task stay as they are", "teamwright log ")
        person.says("what do you know?")
        person.sees("I know nothing of before.")
        gate()
        person.sees("Heard.")
        asked = [body for body in server.bodies if who(body) == "lead"]
    anew = next(body for body in asked if "what do you know" in told(body))
    first = next(body for body in asked if "secret plan" in told(body))
    assert {**anew, "messages": 0} == {**first, "messages": 0}, "the prefix is the same, for the service's cache"
    stands = json.dumps(anew["messages"])
    assert CLEARED_NOTE[:40] in stands and "- ada (general-purpose): working" in stands and "paint it" in stands
    types = [line["type"] for line in lines_of(own_home)]
    assert types.count("compact") == 1
    assert "secret plan" in json.dumps(lines_of(own_home)), "the file keeps what was said"


@pytest.mark.promise("H6", "K8")
@pytest.mark.slow
def test_it_is_refused_while_the_lead_is_in_a_turn_and_ends_nothing(repo, gate):
    def play(body):
        return Answer(tools=[("Bash", {"command": "cat gate"})]) if told(body).strip() == "go" else "It is done."

    with at_terminal(play, repo) as (person, _):
        person.says("go")
        person.sees("Bash cat gate")
        person.says("/clear")
        person.sees("the lead is at work", "nothing was cleared")
        gate()
        person.sees("It is done.")
        person.says("/clear now please")
        person.sees("/clear takes no words")
        person.types(CTRL_D)
        assert person.leaves() == 0


@pytest.mark.slow
@pytest.mark.promise("H6", "H1", "G7")
def test_after_an_ended_turn_it_owes_nothing_hooks_are_told_and_a_resume_is_behind_the_boundary(repo, gate, own_home):
    told_hooks = repo / "hooks.log"
    hook = {"hooks": [{"type": "command", "command": f"cat >> {told_hooks}; echo >> {told_hooks}"}]}
    extra = {"matcher": "clear", "hooks": [{"type": "command", "command": "echo mind the gap"}]}
    (own_home / ".teamwright").mkdir(parents=True, exist_ok=True)
    settings = {"hooks": {"SessionStart": [hook, extra], "SessionEnd": [hook]}}
    (own_home / ".teamwright" / "settings.json").write_text(json.dumps(settings))

    def play(body):
        return Answer(tools=[("Bash", {"command": "cat gate"})]) if told(body).strip() == "go" else "Here I am."

    with at_terminal(play, repo) as (person, server):
        person.says("go")
        person.sees("Bash cat gate")
        person.types(CTRL_C)
        person.sees("the lead's turn was ended")
        person.says("/clear")
        person.sees("begins with an empty conversation")
        heard = [json.loads(line) for line in told_hooks.read_text().splitlines() if line]
        assert [one.get("source") or one.get("reason") for one in heard] == ["startup", "clear", "clear"]
        assert [one["hook_event_name"] for one in heard] == ["SessionStart", "SessionEnd", "SessionStart"]
        person.child.kill(9)
        person.leaves()
        keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234"}
        again = Person("-c", cwd=repo, **keys)
        again.sees("continues; it has", "\n>")
        again.says("hello")
        again.sees("Here I am.")
        asked = json.dumps(server.bodies[-1]["messages"])
        assert "mind the gap" in asked and "cat gate" not in asked
        again.types(CTRL_D)
        assert again.leaves() == 0
