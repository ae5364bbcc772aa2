"""The offer of `sandbox.auto_allow` after a person allowed a command that needs nothing beyond the policy *work*."""

import json
from pathlib import Path

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.support.programs import needs
from tests.ui.program import Program
from tests.ui.test_terminal_session import at_terminal

OFFER = "May commands like this one run without a question"


def play(body: dict) -> Answer | str:
    """Run the commands of the prompt, one after another."""
    texts = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    [prompt] = [one["text"] for one in texts if one.get("text", "").startswith("run: ")][-1:]
    lines, last = prompt.removeprefix("run: ").split(" ; "), body["messages"][-1]["content"]
    done = sum(one.get("type") == "tool_result" for one in texts) if "tool_result" in str(last) else 0
    return Answer(tools=[("Bash", {"command": lines[done]})]) if done < len(lines) else "All done."


def stored(home: Path) -> object:
    """Return the setting of the user; None without one."""
    path = home / ".teamwright/settings.json"
    return json.loads(path.read_text())["sandbox"]["auto_allow"] if path.exists() else None


@needs("bwrap")
@pytest.mark.parametrize(("answer", "value"), [("1", True), ("2", False)])
@pytest.mark.slow_after(1)
def test_the_setting_is_offered_once_and_both_answers_are_kept(repo, own_home, answer, value):
    with at_terminal(play, repo, "--sandbox", "auto", offers_auto_allow=True) as (person, _):
        person.says("run: git commit --allow-empty -m x ; touch one ; touch two")
        person.sees("git policy", "allow?")  # asks by the rules about git, which the setting does not lift
        person.says("n")
        person.sees("Nothing allows touch one.", "allow?")
        person.says("y")
        person.sees(OFFER, "answer:")
        assert not (repo / "one").exists() and stored(own_home) is None
        person.says(answer)
        if not value:
            person.sees("Nothing allows touch two.", "allow?")
            person.says("y")
        person.sees("All done.")
        assert stored(own_home) is value and (repo / "one").exists() and (repo / "two").exists()
    with at_terminal(play, repo, "--sandbox", "auto", offers_auto_allow=True) as (person, _):
        person.says("run: touch three")
        if not value:
            person.sees("Nothing allows touch three.", "allow?")
            person.says("y")
        person.sees("All done.")
        assert (repo / "three").exists() and not person.shows(OFFER)


@needs("bwrap")
@pytest.mark.slow
def test_an_answer_from_elsewhere_leads_to_no_offer(repo, own_home):
    with at_terminal(play, repo, "--sandbox", "auto", offers_auto_allow=True) as (person, _):
        person.says("run: touch one ; touch two")
        person.sees("Nothing allows touch one.", "allow?")
        [waiting] = (own_home / ".teamwright").rglob("perm-*.json")
        answered = Program(repo, own_home / ".teamwright").run("requests", "allow", waiting.stem)
        assert answered.returncode == 0, answered.stderr
        person.sees("Nothing allows touch two.", "allow?")
        assert (repo / "one").exists() and not person.shows(OFFER) and stored(own_home) is None
