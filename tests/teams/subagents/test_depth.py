"""Sub-agents that start sub-agents, as deep as the setting says: at the right parent, never deeper, never by name."""

import asyncio
import json
import re

import pytest

from teamwright.protocol.errors import LimitExceeded
from teamwright.protocol.events import RequestOpened, SubagentChanged
from teamwright.protocol.ids import LEAD
from teamwright.protocol.usage import Usage
from teamwright.subagents.subagent_settings import CallRef
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.testing import Call
from teamwright.views.cost import cost_of
from tests.teams.subagents.crowd import behind, notices_in, until
from tests.teams.subagents.nest import Nest, deep, runs_of, soon, start

pytestmark = pytest.mark.promise("row F15", "F59")


async def test_the_answer_goes_up_step_by_step_and_each_is_booked_under_its_own_id(tmp_path):
    model = Nest(lead=[start("one")], one=[start("two")])
    async with deep(tmp_path, model) as team:
        changes = []
        team.session.log.subscribe(lambda _n, e: changes.append(e) if isinstance(e, SubagentChanged) else None)
        result = await soon(team.run("Go."))
        one, two = (runs_of(team)[who] for who in ("one", "two"))
        home = team.session.agent_factory.home
        used = {name: usage.tokens for name, usage in team.session.agent_factory.budget_tracker.by_member.items()}
    assert "lead: one: two: two" in result.text
    assert (one.owner, two.owner) == (LEAD, one.id)
    assert {(e.member, e.agent) for e in changes} == {(LEAD, one.id), (one.id, two.id)}
    assert used == {LEAD: 22, one.id: 22, two.id: 11}
    view = cost_of(home, tmp_path / "work", "crew")
    assert [line.name for line in view.members] == ["lead"]
    [below] = view.members[0].below
    assert (below.name, [line.name for line in below.below]) == (one.id, [two.id])
    assert (
        view.total.tokens_in + view.total.tokens_out
        == 55
        == sum(line.tokens_in + line.tokens_out for line in view.models)
    )


async def test_one_at_the_last_depth_has_no_way_to_start_another_and_the_others_have_no_names(tmp_path):
    named = Call("Agent", {"description": "a job", "prompt": "two", "name": "bob"})
    model = Nest(lead=[start("one")], one=[named, start("two")])
    async with deep(tmp_path, model) as team:
        await soon(team.run("Go."))
        assert not team.members and len(team.session.agents.runs) == 2
    assert {"Agent", "SendMessage", "ToolSearch"} <= model.tools("one").keys(), "which finds TaskOutput and TaskStop"
    assert not {"Agent", "TaskOutput", "TaskStop", "SendMessage"} & model.tools("two").keys()
    assert "name" not in model.tools("one")["Agent"] and "resume" in model.tools("one")["Agent"]
    assert "a sub-agent of yours has an id alone" in model.told("one")


async def test_the_runtime_refuses_what_is_too_deep_whoever_asks(tmp_path):
    model = Nest(lead=[behind("one")], one=[behind("two")])
    model.holds["two"] = asyncio.Event()
    async with deep(tmp_path, model) as team:
        run = team.run("Go.")
        await until(team, lambda: "two" in model.thinking)
        two, agents = runs_of(team)["two"], team.session.agents
        for name in (two.id,):
            with pytest.raises(LimitExceeded, match=r"depth 3 \(depth 2\)") as refused:
                await agents.start(SpawnSpec(prompt="three"), name, CallRef(), background=False)
            assert "limits.depth" in str(refused.value.do)
        model.holds["two"].set()
        await soon(run)
    assert len(agents.runs) == 2


async def test_with_the_usual_depth_a_sub_agent_has_no_agents(tmp_path):
    model = Nest(lead=[start("one")], one=[start("two")])
    async with deep(tmp_path, model, depth=1) as team:
        await soon(team.run("Go."))
        assert len(team.session.agents.runs) == 1
    assert "Agent" not in model.tools("one")
    assert 'There is no tool \\"Agent\\"' in model.told("one") or "There is no tool 'Agent'" in model.told("one")


async def test_one_that_has_answered_does_not_end_before_what_it_started_and_hears_of_it_itself(tmp_path):
    model = Nest(lead=[behind("one"), "I wait."], one=[behind("two"), "I wait too."])
    model.holds["two"] = asyncio.Event()
    async with deep(tmp_path, model, settings={"agents": {"jobs_wait_s": 0.01}}) as team:
        run = team.run("Go.")
        await until(team, lambda: "two" in model.thinking and len(model.of("one")) == 2)
        one, two = (runs_of(team)[who] for who in ("one", "two"))
        assert one.is_running and two.is_running
        model.holds["two"].set()
        result = await soon(run)
    assert (one.state, two.state) == ("completed", "completed")
    assert notices_in(model.told("one")) == [two.id]
    assert notices_in(model.told("lead")) == [one.id]
    assert "one: " in one.text and result.text.startswith("lead: ")


async def test_what_is_stopped_takes_along_what_it_started(tmp_path):
    model = Nest(lead=[behind("one"), "I wait."], one=[behind("two"), "I wait too."])
    model.holds["two"] = asyncio.Event()
    async with deep(tmp_path, model) as team:
        run = team.run("Go.")
        await until(team, lambda: "two" in model.thinking and len(model.of("one")) == 2)
        one, two = (runs_of(team)[who] for who in ("one", "two"))
        await soon(team.session.agents.stop(one, "enough"))
        assert (one.state, two.state) == ("killed", "killed")
        assert two.failure_reason == "the agent that started it has ended"
        await soon(run)
    assert two.id not in notices_in(model.told("lead"))


async def test_a_request_shows_the_chain_and_holds_up_the_one_that_waits_in_the_end(tmp_path):
    write = Call("Write", {"file_path": "made", "content": "x"})
    model, asked = Nest(lead=[start("one")], one=[start("two")], two=[write]), []
    async with deep(tmp_path, model, permission_mode="default", on_request=lambda request: request.deny("no")) as team:
        team.session.log.subscribe(lambda _n, e: asked.append(e) if isinstance(e, RequestOpened) else None)
        await soon(team.run("Go."))
    assert [(e.member, e.owner) for e in asked] == [
        ("lead › general-purpose: job one › general-purpose: job two", LEAD)
    ]


async def test_what_one_was_denied_none_below_it_has(tmp_path):
    kinds = {"careful": {"description": "d", "prompt": "p", "disallowedTools": ["Bash"]}}
    model = Nest(lead=[start("one", subagent_type="careful")], one=[start("two")], two=[start("three")])
    async with deep(tmp_path, model, depth=3, agents=kinds) as team:
        await soon(team.run("Go."))
    assert all("Bash" not in model.tools(who) and "Read" in model.tools(who) for who in ("one", "two", "three"))
    assert "Agent" in model.tools("two") and "Agent" not in model.tools("three")


async def test_the_caps_of_one_hold_for_all_below_it(tmp_path):
    model = Nest(lead=[start("one", budget_tokens=20_000)], one=[start("two")])
    model.uses = Usage(9_000, 0, requests=1, usd=0.0)
    async with deep(tmp_path, model) as team:
        await soon(team.run("Go."))
        one, two = (runs_of(team)[who] for who in ("one", "two"))
    assert (one.limit, two.state) == ("tokens", "completed")
    assert re.search("18,... of 20,000 tokens are used", one.failure_reason)


async def test_words_to_one_that_has_ended_begin_it_again_at_the_depth_of_whoever_sends_them(tmp_path):
    model = Nest(lead=[start("one")], one=[start("two")])
    async with deep(tmp_path, model) as team:
        await soon(team.run("Go."))
        two = runs_of(team)["two"]
        more = Call("SendMessage", {"to": two.id, "message": "More.", "summary": "more"})
        model.plays["lead"] = [more, "I wait."]
        await soon(team.run("Again."))
        assert (two.owner, two.generation, two.state) == (LEAD, 2, "completed")
    assert json.dumps("More.")[1:-1] in model.told("two")
