"""`--agent`, `--name` and `--no-session-persistence`: a lead of an agent type, titles, and runs without files."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.ui.program import Program, error_of

pytestmark = pytest.mark.finding("U10")

REVIEWER = """---
name: reviewer
description: Reviews a change.
tools: Read, Grep, Bash
disallowedTools: Bash(git push:*)
model: claude-haiku-4-5
---
You are a strict reviewer.
"""


@pytest.fixture
def server():
    with LoopbackModel.in_thread(lambda body: "Done.") as server:
        yield server


@pytest.fixture
def program(tmp_path, repo, server):
    made = Program(repo, tmp_path / "home", server.url)
    (made.home / "agents").mkdir(parents=True)
    (made.home / "agents/reviewer.md").write_text(REVIEWER)
    return made


def tool_names(body):
    return {tool["name"] for tool in body["tools"]}


def sessions(program):
    return json.loads(program.run("sessions", "--json").stdout)


def test_the_lead_has_the_prompt_the_tools_and_the_model_of_its_agent_type(program, server):
    done = program.run("-p", "hi", "--agent", "reviewer")
    assert done.returncode == 0, done.stderr
    [body] = server.bodies
    assert body["model"] == "claude-haiku-4-5"
    assert body["system"][0]["text"].startswith("You are a strict reviewer.")
    assert {"Read", "Grep", "Bash", "TaskCreate", "SendMessage"} <= tool_names(body)
    assert not {"Edit", "Write", "Agent", "WebFetch"} & tool_names(body)


@pytest.mark.finding("3F13")
def test_the_setting_agent_names_the_type_of_a_new_lead_and_a_wrong_one_is_said(program, server):
    program.settings(agent="reviewer")
    assert program.run("-p", "hi").returncode == 0
    assert server.bodies[-1]["system"][0]["text"].startswith("You are a strict reviewer.")
    program.settings(agent="nobody")
    done = program.run("-p", "hi")
    assert done.returncode == 0 and "the setting agent (nobody) is not used" in done.stderr
    assert not server.bodies[-1]["system"][0]["text"].startswith("You are a strict reviewer.")


@pytest.mark.slow
def test_a_resume_keeps_the_agent_type_and_refuses_another_one(program, server):
    assert program.run("-p", "hi", "--agent", "reviewer").returncode == 0
    assert program.run("-p", "more", "-c").returncode == 0
    assert tool_names(server.bodies[1]) == tool_names(server.bodies[0])
    assert server.bodies[1]["model"] == "claude-haiku-4-5"
    refused = program.run("-p", "more", "-c", "--agent", "Explore")
    assert refused.returncode == 2
    assert "began with the agent type reviewer" in error_of(refused)[1][0]


@pytest.mark.slow
def test_a_deny_rule_of_the_agent_type_holds_for_the_lead(tmp_path, repo):
    push = Answer(tools=[("Bash", {"command": "git push origin main"})])
    with LoopbackModel.in_thread([push, "Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        (program.home / "agents").mkdir(parents=True)
        (program.home / "agents/reviewer.md").write_text(REVIEWER)
        args = ("--agent", "reviewer", "--output-format", "json", "--permission-mode", "bypassPermissions")
        result = json.loads(program.run("-p", "push", *args).stdout)
    [denial] = result["permission_denials"]
    assert denial["tool_name"] == "Bash" and "git push" in denial["rule"]


@pytest.mark.slow
def test_a_flag_has_precedence_over_the_model_of_the_agent_type(program, server):
    assert program.run("-p", "hi", "--agent", "reviewer", "--model", "claude-opus-4-1").returncode == 0
    assert server.bodies[0]["model"] == "claude-opus-4-1"


@pytest.mark.slow
def test_an_unknown_agent_type_and_one_of_an_untrusted_repository_are_refused(program, server, repo):
    slug, lines = error_of(program.run("-p", "hi", "--agent", "reviewr"))
    assert slug == "usage" and "use reviewer" in "\n".join(lines)
    (repo / ".claude/agents").mkdir(parents=True)
    (repo / ".claude/agents/evil.md").write_text(REVIEWER.replace("reviewer", "evil"))
    slug, lines = error_of(program.run("-p", "hi", "--agent", "evil"))
    assert slug == "usage" and "not trusted" in lines[0]
    assert server.bodies == []


@pytest.mark.slow
def test_a_session_is_listed_and_resumed_by_its_title(program, server):
    assert program.run("-p", "hi", "--name", "  the   release ").returncode == 0
    [session] = sessions(program)
    assert session["title"] == "the release"
    assert "the release: hi" in program.run("sessions").stdout
    assert program.run("resume", "The Release", "-p", "more").returncode == 0
    assert len(sessions(program)) == 1 and len(server.bodies) == 2
    assert program.run("resume", "the release", "-p", "more", "--name", "the fix").returncode == 0
    assert [one["title"] for one in sessions(program)] == ["the fix"]


@pytest.mark.slow
def test_two_sessions_of_one_title_are_not_chosen_between(program):
    for _ in range(2):
        assert program.run("-p", "hi", "-n", "twice").returncode == 0
    slug, lines = error_of(program.run("resume", "twice", "-p", "more"))
    assert slug == "unknown-session" and "2 sessions have the title twice" in lines[0]


@pytest.mark.parametrize(("reply", "code"), [("Done.", 0), (Status(400), 3)])
@pytest.mark.slow_after(1)
def test_a_run_without_persistence_leaves_no_session(tmp_path, repo, reply, code):
    with LoopbackModel.in_thread([reply]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "hi", "--no-session-persistence")
        assert (done.returncode == 0) is (code == 0), done.stderr
        assert "resume" not in done.stderr
        assert list(program.home.glob("projects/*/*")) == []


@pytest.mark.slow
def test_no_persistence_is_refused_for_a_session_that_continues(program):
    assert program.run("-p", "hi").returncode == 0
    refused = program.run("-p", "more", "-c", "--no-session-persistence")
    assert refused.returncode == 2 and "is for a new session" in refused.stderr
