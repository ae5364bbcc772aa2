"""Commands in Python: called by name, never by what a prompt begins with."""

import pytest

from teamwright import Team
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.program import words_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def served(tmp_path, monkeypatch, own_home):
    """A directory to work in, a server that answers, and a place for commands."""
    (tmp_path / "work").mkdir()
    (own_home / ".teamwright" / "commands").mkdir(parents=True)
    with LoopbackModel.in_thread(["Hello."]) as server:
        server.env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234"}
        server.commands = own_home / ".teamwright" / "commands"
        server.cwd = tmp_path / "work"
        yield server


@pytest.mark.promise("H4", "J1")
async def test_a_program_calls_a_command_by_its_name_and_a_prompt_calls_none(served):
    (served.commands / "review.md").write_text("Review $1.")
    async with Team("release", model="sonnet", cwd=served.cwd, env=served.env) as team:
        assert team.commands == ["review"]
        assert (await team.command("review", "topic")).text == "Hello."
        assert (await team.run("/review topic")).text == "Hello."
        with pytest.raises(UsageError, match="there is no command /reviw"):
            team.command("reviw")
        run = team.command("/review", "again")
        with pytest.raises(TeamRefused, match="a run of this team is still active"):
            team.command("review")
        await run
    told = [words_of(body) for body in served.bodies]
    assert told[0] == "Review topic."
    assert told[1].endswith("/review topic")
    assert told[2].endswith("Review again.")


@pytest.mark.promise("H4", "J1")
async def test_the_model_and_the_calls_that_a_command_names_hold_for_its_turn_alone(served):
    (served.commands / "think.md").write_text("---\nmodel: opus\nallowed-tools: Write\n---\nThink.")
    write = Answer(tools=[("Write", {"file_path": "a.txt", "content": "x"})])
    with LoopbackModel.in_thread([write, "One.", write, "Two."]) as server:
        env = served.env | {"ANTHROPIC_BASE_URL": server.url}
        async with Team("release", model="sonnet", cwd=served.cwd, env=env) as team:
            first = await team.command("think")
            assert (first.text, len(first.denials)) == ("One.", 0)
            second = await team.run("go on")
            assert (second.text, len(second.denials)) == ("Two.", 1)
            assert not team.session.agent_factory.policy.granted
    assert ["opus" in body["model"] for body in server.bodies] == [True, True, False, False]
    assert server.bodies[0]["tools"] == server.bodies[2]["tools"]


@pytest.mark.promise("H4", "J1")
async def test_a_command_that_is_refused_tells_nobody_anything_and_the_team_goes_on(served):
    (served.commands / "go.md").write_text("!`touch made`\nGo on.")
    async with Team("release", model="sonnet", cwd=served.cwd, env=served.env) as team:
        with pytest.raises(UsageError, match="was not allowed"):
            await team.command("go")
        assert served.bodies == []
        assert (await team.run("hi")).text == "Hello."
    assert not (served.cwd / "made").exists()
