"""The default caps of a headless run."""

import json

import pytest
from msgspec.structs import replace

from teamwright import Budget, ModelCard
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import NO_CAPS
from teamwright.session.open_session import open_session
from teamwright.session.options import Options, calls_per_agent, with_default_caps
from teamwright.session.result import Result
from teamwright.session.spawn_file import SpawnFile, options_of, options_to_json
from teamwright.testing import ScriptedModel

HELLO = (text_block("Go."),)


def a_run(tmp_path, model, **more):
    return open_session(Options(cwd=tmp_path, home=tmp_path / "home", model=model, headless=True, env={}, **more))


@pytest.mark.finding("M4")
async def test_a_headless_run_without_flags_ends_at_its_default_cap_and_says_which_flag_raises_it(tmp_path):
    count = iter(range(10_000))
    model = ScriptedModel(lambda _request: ("Glob", {"pattern": f"*.{next(count)}"}))
    async with a_run(tmp_path, model, budget=Budget(tokens=10**9)) as session:
        budget = session.agent_factory.budget_tracker.budget
        assert (budget.usd, budget.tokens, budget.turns, budget.minutes) == (20.0, 10**9, 200, 120)
        assert session.agent_factory.each_rounds == 200
        session.lead.agent.model_calls_left = 3
        result: Result = await session.run(HELLO)
    assert (result.stop, result.limit, result.exit_code, result.turns) == ("limit", "turns", 4, 3)
    assert result.larger_command.endswith("--max-turns N") and "resume" in result.larger_command


@pytest.mark.finding("M4")
@pytest.mark.parametrize(("given", "each"), [(None, 200), (5, 200), (1_000, 1_000)])
def test_a_member_process_has_the_cap_on_calls_that_a_flag_of_its_lead_raised(given, each):
    lead = with_default_caps(Options(headless=True, budget=Budget(turns=given)), NO_CAPS)
    ours = ("home", "session", "crew", "crew", "ada", 1, "wire", "token", False, "sonnet", None)
    told = json.loads(json.dumps(options_to_json(lead)))
    member = with_default_caps(options_of(SpawnFile(*ours, options=told)), NO_CAPS)
    assert calls_per_agent(lead, NO_CAPS) == calls_per_agent(member, NO_CAPS) == each


@pytest.mark.finding("M4")
async def test_the_default_cap_on_money_refuses_no_model_of_unknown_price(tmp_path):
    model = ScriptedModel("Done.", card=ModelCard("own", "own", "own"))
    async with a_run(tmp_path, model) as session:
        result = await session.run(HELLO)
    assert (result.stop, result.text) == ("done", "Done.")


@pytest.mark.finding("M4")
async def test_settings_of_the_user_replace_default_caps_and_flags_overrule_them(tmp_path):
    own = tmp_path / "home" / "settings.json"
    for path in (own, tmp_path / ".teamwright" / "settings.json"):
        path.parent.mkdir(parents=True)
    own.write_text(json.dumps({"budget": {"run": {"usd": 50, "turns": 500, "tokens": 9_000_000, "minutes": 30}}}))
    (tmp_path / ".teamwright" / "settings.json").write_text(json.dumps({"budget": {"run": {"usd": 1_000_000}}}))
    model = ScriptedModel("Done.", card=ModelCard("own", "own", "own"))
    async with a_run(tmp_path, model, budget=Budget(tokens=7_000), trust=True) as session:
        budget_tracker = session.agent_factory.budget_tracker
        result = await session.run(HELLO)
    assert (
        budget_tracker.budget.usd,
        budget_tracker.budget.turns,
        budget_tracker.budget.tokens,
        budget_tracker.budget.minutes,
    ) == (50, 500, 7_000, 30)
    assert set(budget_tracker.assumed) == {"usd", "turns", "minutes"}, (
        "they are defaults: a model of unknown price is used"
    )
    assert result.stop == "done"


@pytest.mark.finding("M4")
async def test_a_person_at_a_terminal_and_a_program_have_no_caps_that_nobody_gave(tmp_path):
    options = Options(cwd=tmp_path, home=tmp_path / "home", model=ScriptedModel("Done."), env={})
    async with open_session(replace(options)) as session:
        assert not session.agent_factory.budget_tracker.budget and session.agent_factory.each_rounds is None
