"""Slash commands about files: instructions, hooks, servers, directories, an export, and a rewind in the session."""

import json

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.test_terminal_session import all_told, at_terminal


@pytest.mark.finding("U8")
@pytest.mark.slow
def test_instructions_hooks_and_servers_are_listed_and_the_conversation_is_exported(repo, tmp_path):
    home = tmp_path / "home"
    (home / ".teamwright").mkdir(parents=True)
    settings = {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
        "mcpServers": {"db": {"command": "db"}},
    }
    (home / ".teamwright" / "settings.json").write_text(json.dumps(settings))
    (repo / "AGENTS.md").write_text("Be brief.")
    with at_terminal(lambda _body: "Done.", repo, HOME=str(home), TEAMWRIGHT_HOME=str(home / ".teamwright")) as (
        person,
        server,
    ):
        person.says("/memory")
        person.sees("AGENTS.md", "#NOTE")
        person.says("/hooks")
        person.sees("Stop")
        person.says("/mcp")
        person.sees("db")
        assert server.bodies == []
        person.says("say it")
        person.sees("Done.")
        person.says("/export said.md")
        person.sees("2 messages are in said.md")
        person.says("/export said.md")
        person.sees("'said.md' exists")
        person.says("/exit")
        assert person.leaves() == 0
    text = (repo / "said.md").read_text()
    assert "## You\n\nsay it" in text and "## Agent\n\nDone." in text


@pytest.mark.finding("U8")
def test_a_directory_that_is_added_in_a_session_is_one_of_its_directories(repo, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "facts").write_text("It is blue.")

    def play(body: dict) -> Answer | str:
        done = "tool_result" in str(body["messages"][-1])
        return "Read." if done else Answer(tools=[("Read", {"file_path": str(outside / "facts")})])

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, server):
        person.says("/add-dir missing")
        person.sees("'missing' is not a directory")
        person.says(f"/add-dir {outside}")
        person.sees("agents may also work in")
        person.says("read the facts")
        person.sees("Read.")
        assert "It is blue." in all_told(server.bodies[-1])
        person.says("/exit")
        assert person.leaves() == 0


@pytest.mark.finding("U9")
@pytest.mark.promise("L1")
def test_a_session_goes_back_to_an_earlier_prompt_and_continues_in_the_same_process(repo, tmp_path):
    def play(body: dict) -> Answer | str:
        last = str(body["messages"][-1])
        if "tool_result" in last:
            return "Written."
        if "write it" in last and "and now?" not in last:
            return Answer(tools=[("Write", {"file_path": "new.txt", "content": "text\n"})])
        return "As you say."

    with at_terminal(play, repo, "--permission-mode", "acceptEdits", HOME=str(tmp_path / "home")) as (person, server):
        person.says("first words")
        person.sees("As you say.")
        person.says("write it")
        person.sees("Written.")
        assert (repo / "new.txt").exists()
        person.says("/rewind 7")
        person.sees("no prompt 7")
        person.says("/rewind")
        person.sees("first words", "write it", "which prompt?")
        person.says("2")
        person.sees("new.txt", "go back? [y/n]")
        person.says("n")
        person.sees("nothing was changed")
        assert (repo / "new.txt").exists()
        person.says("/rewind 2")
        person.sees("go back? [y/n]")
        person.says("y")
        person.sees("back to the time before", "continues", "> first words")
        assert not (repo / "new.txt").exists()
        person.says("and now?")
        person.sees("> and now?", "As you say.")
        assert "first words" in all_told(server.bodies[-1]) and "Written." not in all_told(server.bodies[-1])
        person.says("/exit")
        assert person.leaves() == 0
