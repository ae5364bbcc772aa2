"""The environment that a program gives its team, instead of its own: what commands of the lead and of members see."""

import os

import pytest

from teamwright import Team
from teamwright.testing import LoopbackModel
from teamwright.testing.model_server_replies import Answer

pytestmark = pytest.mark.promise("E7", "J1")

SEES = """say_hello; printf '%s|%s|%s|%s' "$MINE" "$THEIRS" "$ANTHROPIC_API_KEY" "$HOME" """


def play(body: dict) -> Answer | str:
    """Each runs the command once."""
    if any(message["role"] == "assistant" for message in body["messages"]):
        return "Seen."
    return Answer(tools=[("Bash", {"command": SEES, "description": "look"})])


def printed(bodies: list[dict]) -> list[str]:
    """What each was told that the command printed."""
    asked = [body for body in bodies if len(body["messages"]) == 3]
    told = [words_of(block) for body in asked for block in body["messages"][-1]["content"]]
    return [words.strip() for words in told if words]


def words_of(block: dict) -> str:
    content = block.get("content", "") if block["type"] == "tool_result" else ""
    return content if isinstance(content, str) else "".join(one["text"] for one in content)


@pytest.mark.parametrize("backend", ["in-process", "detached"])
@pytest.mark.slow_after(1)
async def test_commands_and_the_shell_startup_see_the_environment_that_the_program_gave(tmp_path, monkeypatch, backend):
    monkeypatch.setenv("THEIRS", "of the process")
    home, work = tmp_path / "other", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / ".bashrc").write_text("say_hello() { printf 'hello|'; }\n")
    (home / ".bash_profile").write_text(". ~/.bashrc\n")
    async with LoopbackModel(play) as server:
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "SHELL": "/bin/bash", "MINE": "given"}
        env |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-of-the-model-0001"}
        options = {"permission_mode": "bypassPermissions", "home": tmp_path / "state", "backend": backend}
        async with Team("crew", cwd=work, model="sonnet", env=env, **options) as team:
            await team.spawn("ada", "Look.")
            await team.run("Look.")
    assert printed(server.bodies) == [f"hello|given|||{home}"] * 2


async def test_an_environment_that_names_only_a_key_leaves_commands_what_they_need_to_run(tmp_path, monkeypatch):
    monkeypatch.setenv("THEIRS", "of the process")
    async with LoopbackModel(play) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-of-the-model-0001"}
        options = {"permission_mode": "bypassPermissions", "home": tmp_path / "state", "backend": "in-process"}
        async with Team("crew", cwd=tmp_path, model="sonnet", env=env, **options) as team:
            await team.run("Look.")
    assert printed(server.bodies)[0].splitlines()[-1].endswith(f"|||{os.environ['HOME']}")
