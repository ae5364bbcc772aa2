"""How hard agents think: who decides it, where it stays, and what is said when a model does not document it."""

import asyncio
import json

import pytest

from teamwright import Team
from teamwright.config.agent_type_fields import FIELDS
from teamwright.models.effort import LEVELS, parse_effort, prefix_effort
from teamwright.models.model import ModelCard
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import model_card
from teamwright.models.provider_table import PROVIDERS
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.events import Notice
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.event_log import read_events
from teamwright.testing import ScriptedModel
from teamwright.views.status import status_views
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("F43", "row F1")

THINKS = ModelCard("test/m", "m", "test", 200_000, 64_000, 0.0, 0.0, efforts=("low", "high", "max"))
SUB = ("Agent", {"description": "look at it", "prompt": "Look."})
"""A sub-agent that nobody says anything more of."""


def crew(efforts, answer=None, card=THINKS):
    """A model that notes with which effort each agent asks."""

    def heard(request):
        efforts.setdefault(request.agent_name, prefix_effort(request.prefix))
        return answer(request) if answer is not None else "Done."

    return ScriptedModel(heard, card=card)


def once(*calls):
    left = {"team-lead": list(calls)}
    return lambda request: left[request.agent_name].pop(0) if left.get(request.agent_name) else "Done."


def test_an_effort_is_a_level_or_a_number_of_tokens():
    assert [parse_effort(level) for level in LEVELS] == list(LEVELS)
    assert [parse_effort(one) for one in (" High ", "2048", 2048)] == ["high", 2048, 2048]
    for wrong in ("", "ultra", 0, -1, True, 1.5, None, [], "12345678"):
        with pytest.raises(ValueError, match="one of none, minimal, low"):
            parse_effort(wrong)


def test_what_models_document_is_data():
    def of(provider, wire, **settings):
        made = model_card(PROVIDERS[provider], wire, ModelSettings(**settings))
        return made.efforts, made.budget_from

    five = ("low", "medium", "high", "xhigh", "max")
    assert of("anthropic", "sonnet") == (five, None)
    assert of("anthropic", "claude-opus-4-5-20251101") == (("low", "medium", "high"), 1_024)
    assert of("anthropic", "claude-haiku-4-5") == ((), 1_024)
    assert of("openai", "gpt-6.1-sol") == (five, None)
    assert of("openai", "gpt-6-luna") == (("none", *five), None)
    assert of("google", "gemini-3.8-flash") == (("low", "medium", "high"), None)
    assert of("bedrock", "eu.anthropic.claude-opus-4-5-20251101-v1:0") == (("low", "medium", "high"), None)
    assert of("ollama", "qwen3") == of("bedrock", "meta.llama") == ((), None)
    # a model that does not think at all takes no more than high
    assert of("anthropic", "claude-haiku-5-5", thinking="off") == (("low", "medium", "high"), None)
    assert of("anthropic", "claude-sonnet-5-5", thinking="off") == (five, None)


async def test_whoever_says_nothing_thinks_as_hard_as_its_caller(tmp_path):
    efforts = {}

    def answer(request):
        return SUB if request.agent_name in {"team-lead", "ada"} and len(request.items) == 1 else "Done."

    async with asyncio.timeout(WAIT_S), Team("crew", model=crew(efforts, answer), cwd=tmp_path, effort="high") as team:
        await team.spawn("ada", "Go.")
        await team.spawn("bob", "Go.", effort="max")
        await team.run("Go.")
    assert (efforts["team-lead"], efforts["ada"], efforts["bob"]) == ("high", "high", "max")
    assert len(efforts) == 5 and set(efforts.values()) == {"high", "max"}


async def test_a_team_file_says_it_for_a_role_and_for_everybody_else(tmp_path):
    (tmp_path / ".teamwright").mkdir()
    text = '[team]\neffort = "low"\n[roles.builder]\neffort = "max"\n'
    (tmp_path / ".teamwright" / "team.toml").write_text(text)
    efforts, options = {}, {"cwd": tmp_path, "effort": "high", "trust": True}
    async with asyncio.timeout(WAIT_S), Team("crew", model=crew(efforts), **options) as team:
        await team.spawn("ada", "Go.", agent_type="builder")
        await team.spawn("bob", "Go.")
        await team.spawn("carl", "Go.", agent_type="builder", effort="high")
        await team.run("Go.")
    assert efforts == {"team-lead": "high", "ada": "max", "bob": "low", "carl": "high"}


async def test_an_untrusted_team_file_makes_nobody_think_harder(tmp_path):
    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright" / "team.toml").write_text('[team]\neffort = "max"\n[roles.builder]\neffort = "max"\n')
    efforts = {}
    async with asyncio.timeout(WAIT_S), Team("crew", model=crew(efforts), cwd=tmp_path) as team:
        await team.spawn("ada", "Go.", agent_type="builder")
        await team.spawn("bob", "Go.")
        await team.run("Go.")
    assert set(efforts.values()) == {None}


def test_a_team_file_with_an_effort_that_is_none_is_an_error_with_its_line(tmp_path):
    from teamwright.config.team_file import parse_definition

    with pytest.raises(CannotStart, match="effort must be one of") as refused:
        parse_definition('[roles.builder]\neffort = "hihg"\n', tmp_path / "team.toml")
    assert ("at", "line 2, roles.builder.effort") in refused.value.looked_at
    assert list(refused.value.do) == ["did you mean high?"]


async def test_what_a_flag_asks_of_a_model_that_has_it_not_is_an_error_and_a_setting_is_told(tmp_path):
    with pytest.raises(UsageError, match="the effort xhigh cannot be asked of test/m") as refused:
        async with Team("crew", model=crew({}), cwd=tmp_path, effort="xhigh"):
            pass
    assert ("its efforts", "low, high, max") in refused.value.looked_at
    for wrong in ("hihg", 0, 1.5):
        with pytest.raises(UsageError, match="is no effort"):
            Team("crew", model=crew({}), cwd=tmp_path, effort=wrong)
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"effort": "xhigh"}))
    efforts = {}
    options = Options(cwd=tmp_path, model=crew(efforts), settings_file=settings)
    async with asyncio.timeout(WAIT_S), open_session(options) as session:
        await session.run([{"type": "text", "text": "Go."}])
    assert efforts == {"team-lead": None}
    what = "the effort xhigh of the settings is not used: test/m uses its default effort (it takes low, high, max)"
    assert what in session.warnings


async def test_a_call_that_asks_for_what_there_is_not_starts_nothing_and_names_the_nearest(tmp_path):
    wrong = ("Agent", {"description": "d", "prompt": "p", "effort": "hihg"})
    none = ("Agent", {"description": "d", "prompt": "p", "effort": "xhigh", "name": "ada"})
    model = crew(efforts := {}, once(wrong, none))
    async with asyncio.timeout(WAIT_S), Team("crew", model=model, cwd=tmp_path) as team:
        await team.run("Go.")
        assert not team.members
    assert set(efforts) == {"team-lead"}
    told = "".join(item.decode() for item in model.requests[-1].items)
    assert "did you mean high?" in told and "the effort xhigh cannot be asked of test/m" in told


async def test_it_is_fixed_at_birth_kept_over_a_resume_and_shown(tmp_path):
    efforts = {}
    async with asyncio.timeout(WAIT_S), Team("crew", model=crew(efforts), cwd=tmp_path, effort="high") as team:
        await team.spawn("ada", "Go.", effort="max")
        await team.run("Go.")
    again = {}
    async with asyncio.timeout(WAIT_S), Team.resume("crew", model=crew(again), cwd=tmp_path) as team:
        await team.send("ada", "Go on.")
        await team.run("Go.")
        view = status_views(team.session.agent_factory.home, tmp_path, "crew")[0]
    assert again == efforts == {"team-lead": "high", "ada": "max"}
    assert {member.name: member.effort for member in view.members} == {"lead": "high", "ada": "max"}


async def test_a_flag_changes_it_for_a_session_that_goes_on_and_another_model_keeps_what_it_knows(tmp_path):
    async with asyncio.timeout(WAIT_S), Team("crew", model=crew({}), cwd=tmp_path, effort="high") as team:
        await team.spawn("ada", "Go.", effort="max")
        await team.run("Go.")
    efforts = {}
    async with asyncio.timeout(WAIT_S), Team.resume("crew", model=crew(efforts), cwd=tmp_path, effort="low") as team:
        await team.send("ada", "Go on.")
        await team.run("Go.")
    assert efforts == {"team-lead": "low", "ada": "max"}
    other, efforts = ModelCard("test/o", "o", "test", efforts=("low",)), {}
    async with asyncio.timeout(WAIT_S), Team.resume("crew", model=crew(efforts, card=other), cwd=tmp_path) as team:
        await team.send("ada", "Go on.")
        await team.run("Go.")
        log = team.session.log.path
    assert efforts == {"team-lead": None, "ada": None}
    told = [event.text for _n, event in read_events(log) if isinstance(event, Notice)]
    for level in ("high", "max"):
        what = f"the effort {level} of a resumed conversation is not used: test/o uses its default effort"
        assert any(what in text for text in told)


def test_definitions_have_the_field():
    assert FIELDS["effort"].soft
