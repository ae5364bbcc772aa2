"""A person at a real terminal, with the real program and a model that plays a script."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall, Status
from tests.support.model_requests import is_session_note, teammate_of, without_session_notes
from tests.support.transcripts import messages_of
from tests.ui.terminal_driver import ALT_ENTER, BACKSPACE, CTRL_C, CTRL_D, ENTER, Person

Reply = Answer | Stall | Status | str


def who(body: dict) -> str:
    """Whose request it is."""
    return teammate_of(body) or "lead"


def told(body: dict) -> str:
    """The text of the newest message, tool results included."""
    contents = [block.get("text", block.get("content", "")) for block in body["messages"][-1]["content"]]
    parts = [content if isinstance(content, str) else json.dumps(content) for content in contents]
    return "\n".join(part for part in parts if not is_session_note(part))


def all_told(body: dict) -> str:
    return json.dumps(without_session_notes(body["messages"]), ensure_ascii=False)


def bash(command: str) -> Answer:
    return Answer(tools=[("Bash", {"command": command, "description": "a step"})])


@contextmanager
def at_terminal(
    play: Callable[[dict], Reply], cwd: Path, *args: str, size: tuple[int, int] = (40, 100), **env: Any
) -> Iterator[tuple[Person, LoopbackModel]]:
    """A person in front of a session whose model answers by `play`."""
    with LoopbackModel.in_thread(play) as server:
        keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234"}
        person = Person("--model", "sonnet", *args, cwd=cwd, size=size, **keys, **env)
        try:
            person.sees("/help", "\n>")
            yield person, server
        finally:
            person.ends()


@pytest.fixture
def gate(repo: Path) -> Callable[[], None]:
    """A pipe that a command `cat gate` waits at, and what opens it."""
    os.mkfifo(repo / "gate")

    def opened() -> None:
        with open(repo / "gate", "w") as pipe:
            pipe.write("open\n")

    return opened


def transcript(home: Path) -> list[dict]:
    """The lead's messages, from the file."""
    (path,) = (home / ".teamwright" / "projects").glob("*/*.jsonl")
    return messages_of(path)


def unanswered(messages: list[dict]) -> set[str]:
    blocks = [block for message in messages for block in message["content"]]
    asked = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return asked - {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}


@pytest.mark.promise("K8")
def test_a_session_answers_ends_with_its_cost_and_says_how_to_go_on(repo, tmp_path, own_home):
    script = tmp_path / "hello.toml"
    script.write_text('[[agent.lead.otherwise]]\nsay = "Good day.\\nThe second line."\n')
    person = Person("--model", f"scripted:{script}", cwd=repo)
    person.sees("/help", "\n>")
    person.says("hello")
    person.sees("Good day.", "The second line.")
    person.types(CTRL_D)
    person.sees("1 member · 1 turn ·", "continue: teamwright resume ")
    assert person.leaves() == 0
    history = own_home / ".teamwright" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+hello" in history.read_text()


@pytest.mark.promise("K5")
@pytest.mark.slow
def test_a_question_shows_all_of_it_and_gives_back_the_line_that_was_being_typed(repo, gate, own_home):
    def play(body):
        if "half a thought" in all_told(body):
            return "I read your thought."
        if told(body).strip() == "go":
            return bash("cat gate")
        return bash("touch made\ntouch second") if "open" in told(body) else "It is done."

    with at_terminal(play, repo) as (person, _):
        person.says("go")
        person.sees("● lead ", "Bash cat gate")
        person.types("half a tho")
        person.sees("half a tho")
        gate()
        person.sees("lead wants to use Bash", "touch made", "touch second", "rule", "y yes", "allow?")
        person.says("what?")
        person.sees("that is no answer")
        person.says("n")
        person.sees("refused", "It is done.", "> half a thowhat?")
        person.types(BACKSPACE * 5 + "ught" + ENTER)
        person.sees("I read your thought.")
        assert not (repo / "made").exists()


@pytest.mark.promise("K5")
def test_a_yes_runs_it_and_an_edit_shows_its_diff(repo):
    def play(body):
        if told(body).strip() == "go":
            return Answer(tools=[("Write", {"file_path": "new.txt", "content": "one\ntwo\n"})])
        return "Written."

    with at_terminal(play, repo) as (person, _):
        person.says("go")
        person.sees("lead wants to use Write", "+one", "+two", "allow?")
        person.says("y")
        person.sees("Write new.txt (+2 -0)", "+one", "+two", "Written.")
        assert (repo / "new.txt").read_text() == "one\ntwo\n"


def test_a_question_of_an_agent_takes_a_number(repo):
    def play(body):
        if told(body).strip() == "go":
            options = [{"label": "PostgreSQL"}, {"label": "SQLite"}]
            return Answer(
                tools=[("AskUserQuestion", {"questions": [{"question": "Which store?", "options": options}]})]
            )
        return f"So it is {'SQLite' if 'SQLite' in told(body) else 'nothing'}."

    with at_terminal(play, repo) as (person, _):
        person.says("go")
        person.sees("Which store?", "1  PostgreSQL", "2  SQLite", "answer:")
        person.says("2")
        person.sees("So it is SQLite.")


@pytest.mark.promise("K8", "F28")
def test_ctrl_c_in_a_tool_call_ends_the_turn_and_the_next_prompt_is_accepted(repo, own_home):
    os.mkfifo(repo / "gate")

    def play(body):
        return bash("cat gate") if told(body).strip() == "go" else "Still here."

    with at_terminal(play, repo) as (person, server):
        person.says("go")
        person.sees("● lead ", "Bash cat gate")
        person.types(CTRL_C)
        person.sees("the lead's turn was ended")
        assert unanswered(transcript(own_home)) == set()
        person.says("are you there?")
        person.sees("Still here.")
        roles = [message["role"] for message in server.bodies[-1]["messages"]]
        assert roles[-1] == "user"
        person.types(CTRL_D)
        assert person.leaves() == 0


@pytest.mark.promise("K8", "F28")
@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_the_answer_keeps_the_prompt(repo, own_home):
    stalled = Stall(after_events=5, answer=Answer("one line\nand a half that never ends " * 4))

    def play(body):
        return "Both were heard." if "second" in all_told(body) else stalled

    with at_terminal(play, repo) as (person, server):
        person.says("the first")
        person.sees("one line")
        person.types(CTRL_C)
        person.sees("the lead's turn was ended")
        person.says("the second")
        person.sees("Both were heard.")
        heard = json.dumps(server.bodies[-1]["messages"])
        assert "the first" in heard and "the second" in heard
        person.types(CTRL_D)
        assert person.leaves() == 0


@pytest.mark.promise("K8")
def test_ctrl_c_clears_the_line_which_the_history_keeps_and_twice_at_an_idle_prompt_leaves(repo, own_home):
    with at_terminal(lambda _body: "heard", repo) as (person, server):
        person.types("a line that I drop")
        person.sees("that I drop")
        person.types(CTRL_C)
        person.says("/cost")
        person.sees("all ")
        assert server.bodies == []
        assert "+a line that I drop" in (own_home / ".teamwright" / "history").read_text()
        person.types(CTRL_C)
        person.sees("Ctrl-C again within 2 s leaves")
        person.types(CTRL_C)
        person.sees("continue:")
        assert person.leaves() == 0


@pytest.mark.promise("K8")
@pytest.mark.slow
def test_lines_typed_while_the_lead_works_reach_its_next_round(repo, gate):
    def play(body):
        if told(body).strip() == "go":
            return bash("cat gate")
        return "I saw it in time." if "mind the tests" in told(body) else "Nothing more."

    with at_terminal(play, repo) as (person, server):
        person.says("go")
        person.sees("● lead ", "Bash cat gate")
        person.says("mind the tests")
        person.sees("reads it before its next step")
        gate()
        person.sees("I saw it in time.")
        assert len(server.bodies) == 2


def test_several_lines_are_one_prompt(repo):
    def play(body):
        return f"{told(body).count(chr(10)) + 1} lines."

    with at_terminal(play, repo) as (person, _):
        person.types("one" + ALT_ENTER + "two")
        person.says("")
        person.sees("2 lines.")
        person.types("\x1b[200~three\nfour\nfive\x1b[201~")
        person.says("")
        person.sees("3 lines.")


def test_tab_completes_commands_and_files(repo):
    with at_terminal(lambda body: "Read." if "A small project" in told(body) else "Not read.", repo) as (person, _):
        person.types("/memb\t")
        person.sees("> /members")
        person.says("")
        person.sees("lead ", "idle")
        person.types("what is @READ\t")
        person.sees("@README.md")
        person.says("")
        person.sees("Read.")


def test_commands_show_and_an_unknown_one_names_the_nearest(repo):
    with at_terminal(lambda _body: "heard", repo) as (person, server):
        person.says("/help")
        person.sees("/members", "/stop NAME", "Ctrl-D")
        person.says("/membres")
        person.sees("there is no /membres; did you mean /members?")
        person.says("/tasks")
        person.sees("no tasks")
        person.says("/stop tessa")
        person.sees("tessa", "nothing was stopped")
        person.says("@tessa hello")
        person.sees("nothing was sent")
        assert server.bodies == []
        person.says("/quit")
        assert person.leaves() == 0


@pytest.mark.promise("K5")
def test_always_says_where_it_holds_and_asks_no_second_time(repo):
    def play(body):
        return bash("touch made") if told(body).strip() in {"one", "two"} else f"Done {all_told(body).count('touch')}."

    with at_terminal(play, repo) as (person, _):
        person.says("one")
        person.sees("always  Bash(touch made) (for every agent, until this session ends)", "allow? [y/n/a]")
        person.says("a")
        person.sees("Done 1.")
        person.says("two")
        person.sees("Done 2.")


def test_a_cap_ends_the_session_with_its_own_exit_code(repo):
    with at_terminal(lambda _body: bash("ls"), repo, "--max-turns", "1") as (person, _):
        person.says("go")
        person.sees("the cap on turns is spent", "continue: teamwright resume")
        assert person.leaves() == 4


def test_a_wrong_key_is_said_without_the_key_and_in_the_exit_code(repo):
    with at_terminal(lambda _body: Status(401, message="invalid x-api-key"), repo) as (person, _):
        person.says("go")
        person.sees("[wrong-key]")
        person.types(CTRL_D)
        assert person.leaves() == 3
        assert "sk-ant-test-000000001234" not in person.raw


def test_a_secret_is_never_shown_whoever_says_it(repo):
    with at_terminal(lambda _body: "The key is sk-ant-test-000000001234, they say.", repo) as (person, _):
        person.says("go")
        person.sees("The key is", "they say.")
        assert "sk-ant-test-000000001234" not in person.raw


@pytest.mark.promise("K8")
@pytest.mark.slow
def test_a_session_that_is_gone_on_with_says_so_and_remembers(repo):
    def play(body):
        return f"{len([m for m in body['messages'] if m['role'] == 'user'])} heard."

    with at_terminal(play, repo) as (person, _):
        person.says("first")
        person.sees("1 heard.")
        person.types(CTRL_D)
        assert person.leaves() == 0
    with at_terminal(play, repo, "-c") as (person, _):
        person.sees("continues; it has 2 messages")
        person.says("second")
        person.sees("2 heard.")
