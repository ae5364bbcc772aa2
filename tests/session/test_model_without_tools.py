"""A model that does not call tools: a notice at the start, and no place in a team."""

import json

import pytest

from teamwright import CannotStart, ModelCard, Team
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.testing import LoopbackModel, ScriptedModel

PROPS = {"default_generation_settings": {"n_ctx": 64_000}, "chat_template_caps": {"supports_tools": False}}


def scripted(name, *, tools):
    return ScriptedModel("ok", card=ModelCard(f"own/{name}", name, "own", usd_in=0.0, usd_out=0.0, tools=tools))


async def warnings(tmp_path, model, **options):
    async with open_session(Options(cwd=tmp_path, home=str(tmp_path / "home"), model=model, **options)) as session:
        return [warning for warning in session.warnings if "does not call tools" in warning]


async def test_a_session_with_a_model_without_tools_begins_with_a_notice(tmp_path):
    [notice] = await warnings(tmp_path, scripted("mute", tools=False))
    assert notice.startswith("own/mute does not call tools") and "--tools ''" in notice


async def test_a_server_that_says_so_is_believed(tmp_path):
    with LoopbackModel.in_thread(["Yes."], facts={"/props": PROPS}) as server:
        house = {"providers": {"house": {"base_url": server.url, "api": "openai-chat"}}}
        [notice] = await warnings(
            tmp_path, "house/smollm2", settings_file=json.dumps(house), env={"HOME": str(tmp_path)}
        )
    assert notice.startswith("house/smollm2 does not call tools (the server)")


async def test_a_model_with_tools_begins_in_silence(tmp_path):
    assert not await warnings(tmp_path, scripted("able", tools=True))


async def test_a_teammate_needs_a_model_that_calls_tools(tmp_path):
    async with Team("crew", model=scripted("mute", tools=False), cwd=tmp_path, env={}) as team:
        with pytest.raises(CannotStart, match="own/mute does not call tools") as refused:
            await team.spawn("ada", "Look.")
        assert '"own/mute": {"tools": true}' in " ".join(refused.value.do)
        assert [member.name for member in team.members] == []


async def test_a_teammate_gets_no_other_model_that_calls_no_tools(tmp_path):
    async with Team("crew", model=scripted("able", tools=True), cwd=tmp_path, env={}) as team:
        await team.spawn("ada", "Look.")
        with pytest.raises(CannotStart, match="own/mute does not call tools"):
            await team.set_model(scripted("mute", tools=False), "ada")
