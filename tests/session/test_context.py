"""What fills a window: the parts of what is really sent, and when it is compacted."""

import json
from pathlib import Path

import pytest

from teamwright import ModelCard, Team, UnknownMember
from teamwright.testing import LoopbackModel, ScriptedModel
from teamwright.testing.model_server_replies import Answer

SMALL = ModelCard("own/small", "small", "own", context_tokens=40_000, max_output_tokens=2_000, usd_in=0.0, usd_out=0.0)
SKILL = "---\nname: notes\ndescription: Writes notes of a release.\n---\nRead the log.\n"


class Counted(ScriptedModel):
    """A scripted model with a small window."""

    def __init__(self, answers) -> None:
        super().__init__(answers)
        self._card = SMALL


def a_team(tmp_path: Path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Team("crew", model=model, cwd=tmp_path / "work", home=tmp_path / "home", **more)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.promise("H6")
async def test_the_parts_add_up_and_each_thing_is_in_its_own(tmp_path):
    put(tmp_path / "home/skills/notes/SKILL.md", SKILL)
    plain = {}
    async with a_team(tmp_path, Counted(["One."])) as team:
        plain = {part.name: part.tokens for part in (await team.context()).parts}
    put(tmp_path / "work/AGENTS.md", "word " * 4_000)
    async with Team("two", model=Counted(["One."]), cwd=tmp_path / "work", home=tmp_path / "home") as team:
        view = await team.context()
        parts = {part.name: part.tokens for part in view.parts}
        assert set(plain) == {"system prompt", "tools", "skills"}
        assert 4_900 < parts["instructions"] < 5_300
        assert abs(parts["tools"] - plain["tools"]) < 60
        assert view.used == sum(parts.values()) and view.free == view.window - view.used == 40_000 - view.used
        assert not view.measured, "nobody has counted yet"
        assert view.compacts_at == 32_000 and view.left == 32_000 - view.used


@pytest.mark.promise("H6")
async def test_a_member_has_its_own_and_who_is_nobody_is_an_error(tmp_path):
    put(tmp_path / "home/agents/keeper.md", "---\nname: keeper\ndescription: d\nmemory: user\n---\nYou keep.\n")
    model = Counted({"ada": ["word " * 2_000]})
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Say much.", agent_type="keeper")
        await team.run("Go.")
        view = await team.context("ada")
        parts = {part.name: part.tokens for part in view.parts}
        assert view.member == "ada" and "memory" in parts
        assert parts["messages"] > 2_000
        assert "memory" not in {part.name for part in (await team.context()).parts}
        with pytest.raises(UnknownMember):
            await team.context("nobody")


@pytest.mark.promise("H6")
async def test_the_sum_is_what_the_service_counted(tmp_path):
    counted = {"input_tokens": 20_000, "output_tokens": 300, "cache_read_input_tokens": 1_000}
    with LoopbackModel.in_thread([Answer("Well.", usage=counted)]) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-test", "HOME": str(tmp_path)}
        async with a_team(tmp_path, "sonnet", env=env) as team:
            await team.run("Go.")
            view = await team.context()
            assert view.measured
            assert view.used == 21_300
            body = json.dumps(server.bodies[0])
    assert len(body) // 4 < 20_000, "it is not our own count"


@pytest.mark.promise("H6")
async def test_where_nothing_compacts_by_itself_that_is_said(tmp_path):
    put(tmp_path / "home/settings.json", json.dumps({"compact_at": None}))
    async with a_team(tmp_path, Counted(["One."])) as team:
        view = await team.context()
        assert (view.compacts_at, view.left) == (None, None)
