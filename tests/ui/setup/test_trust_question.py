"""The first start in a foreign repository asks once, and again about what is new; before that nobody is called."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import KEY
from tests.ui.terminal_driver import CTRL_D, Person

RULES = ["Bash(touch one*)"]


def rules(repo, *texts):
    (repo / ".claude").mkdir(exist_ok=True)
    (repo / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"allow": list(texts)}}))


def person(repo, server) -> Person:
    env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}
    return Person("say hello", cwd=repo, **env)


@pytest.mark.promise("K1", "K10")
def test_no_request_leaves_before_the_question_is_answered(repo, own_home):
    rules(repo, *RULES)
    with LoopbackModel.in_thread(["Hello there."]) as server:
        asked = person(repo, server)
        asked.sees("has entries that can run", "touch one", "trust them?")
        assert server.connections == 0
        asked.says("y")
        asked.sees("Hello there.")
        asked.types(CTRL_D)
        assert asked.leaves() == 0
        assert server.connections > 0


@pytest.mark.finding("C3")
def test_what_allows_calls_is_listed_first_and_whole_and_hides_no_hook(repo, own_home):
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "./run-me"}]}]}
    allow = [f"Bash(git push {number})" for number in range(30)]
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.json").write_text(
        json.dumps({"env": {"A": "1"}, "hooks": hooks, "permissions": {"allow": allow}})
    )
    with LoopbackModel.in_thread(["Hello there."]) as server:
        asked = person(repo, server)
        asked.sees(
            "allow: Bash(git push 0)", "allow: Bash(git push 29)", "hook: Stop: ./run-me", "1 more", "trust them?"
        )
        asked.ends()


@pytest.mark.slow
@pytest.mark.promise("K1")
def test_it_asks_once_and_again_about_what_is_new_or_was_changed(repo, own_home):
    rules(repo, *RULES)
    with LoopbackModel.in_thread(["First answer.", "Second answer.", "Third answer."]) as server:
        first = person(repo, server)
        first.sees("trust them?")
        first.says("y")
        first.sees("First answer.")
        first.types(CTRL_D)
        assert first.leaves() == 0
        second = person(repo, server)
        second.sees("Second answer.")
        assert "trust them?" not in second.screen.text
        second.types(CTRL_D)
        assert second.leaves() == 0
        rules(repo, *RULES, "Bash(touch two*)")
        third = person(repo, server)
        third.sees("touch two", "trust them?")
        assert "touch one" not in third.screen.text, "what was trusted is not asked about again"
        third.says("n")
        third.sees("Third answer.")
        third.types(CTRL_D)
        assert third.leaves() == 0
    kept = json.loads((own_home / ".teamwright" / "trust.json").read_text())
    [entries] = [one["entries"] for one in kept["repositories"].values()]
    assert [key for key in entries if "touch" in key] == ["permissions.allow .claude/settings.json Bash(touch one*)"]
