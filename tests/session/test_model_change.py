"""Another model while a team runs: whose it is, what is sent from then on, and that it is kept."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright import Budget, CannotStart, ModelCard, ModelChanged, Reply, Team, UnknownMember
from teamwright.agent.transcript import read_history
from teamwright.team_records.snapshots import resolve_home
from teamwright.testing import LoopbackModel
from teamwright.views.audit.audit import audit
from teamwright.views.status import status_views
from tests.session.test_modes import HOLD, Asked, Stop
from tests.support.waits import WAIT_S

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


class Named(Asked):
    """A scripted model with a name of its own."""

    def __init__(self, name: str, answers, **more) -> None:
        super().__init__(answers)
        prices = {"usd_in": 0.0, "usd_out": 0.0, **more}
        self._card = ModelCard(f"own/{name}", name, "own", **prices)


class Thoughtful(Named):
    """Thinks before each answer."""

    async def stream(self, request):
        async for part in super().stream(request):
            yield replace(part, content=[THOUGHT, *part.content]) if isinstance(part, Reply) else part


def a_team(tmp_path: Path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Team("crew", model=model, cwd=tmp_path / "work", home=tmp_path / "home", **more)


def wired(tmp_path: Path, server: LoopbackModel, **more) -> Team:
    env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-test", "HOME": str(tmp_path)}
    return a_team(tmp_path, "sonnet", env=env, **more)


def contents(request) -> str:
    return b"".join(request.items).decode()


async def changes(events):
    async with asyncio.timeout(WAIT_S):
        async for _, event in events:
            if isinstance(event, ModelChanged):
                yield event


def prefix_lines(team: Team) -> list[dict]:
    path = team.session.lead.agent.conversation.path
    return [line for text in path.read_text().splitlines() if (line := json.loads(text))["type"] == "prefix"]


@pytest.mark.promise("F43", "K2")
async def test_the_lead_goes_on_with_another_model_and_whoever_comes_has_it_too(tmp_path):
    first, second = Named("first", ["One."]), Named("second", {"lead": ["Two."], "ada": ["Three."]})
    async with a_team(tmp_path, first) as team:
        events = team.events()
        await team.run("Go.")
        made = await team.set_model(second)
        assert (made.member, made.model, made.before) == ("lead", "own/second", "own/first")
        assert team.model == "own/second"
        await team.run("Again.")
        ada = await team.spawn("ada", "Hello.")
        assert ada.model == "own/second"
        changed = await anext(one async for one in changes(events))
        assert (changed.member, changed.by) == ("team-lead", "user")
        assert (changed.model, changed.before) == ("own/second", "own/first")
        [view] = status_views(resolve_home(tmp_path / "home"), tmp_path / "work")
        assert {m.name: m.model for m in view.members}["lead"] == "own/second"
    assert len(first.requests) == 1
    assert second.requests[0].prefix.model == "second"
    assert "One." in contents(second.requests[0])


@pytest.mark.promise("F43")
async def test_thinking_of_before_is_not_sent_to_the_other_model_also_after_a_load(tmp_path):
    first = Thoughtful("first", ["One."])
    second = Named("second", ["Two."])
    async with a_team(tmp_path, first) as team:
        await team.run("Go.")
        conversation = team.session.lead.agent.conversation
        assert b"thinking" in conversation.items[-1]
        await team.set_model(second)
        [line] = prefix_lines(team)
        assert (line["why"], line["model"], line["prefix"]) == ("model", "own/second", conversation.prefix.digest)
        await team.run("Again.")
        assert "One." in contents(second.requests[0])
        assert '"thinking"' not in contents(second.requests[0])
        history = read_history(conversation.path)
        assert history.items == conversation.items
        assert history.prefix == conversation.prefix.digest
        assert history.lines == conversation.lines
        assert b"thinking" in conversation.path.read_bytes(), "the file keeps every line"
    found = audit(resolve_home(str(tmp_path / "home")), "crew", running=[os.getpid()])
    assert found.clean, found.problems


@pytest.mark.promise("F43")
async def test_in_a_turn_the_change_waits_for_the_next_model_call(tmp_path):
    stop = Stop()
    first = Named("first", {"lead": ["ok"], "ada": [HOLD]})
    second = Named("second", {"ada": ["done"]})
    async with a_team(tmp_path, first, tools=[stop.hold], permission_mode="bypassPermissions") as team:
        ada = await team.spawn("ada", "Hold.")
        await stop.at()
        made = await team.set_model(second, "ada")
        assert str(made) == "ada has own/second from its next model call on"
        assert (ada.model, team.model) == ("own/first", "own/first")
        stop.go.set()
        await second.until("ada", 1)
        assert ada.model == "own/second"
        assert "go on" in contents(second.of("ada")[0])


@pytest.mark.promise("F43")
async def test_what_is_no_model_or_nobody_s_changes_nothing(tmp_path):
    with LoopbackModel.in_thread(models=("claude-test-1",)) as server:
        async with wired(tmp_path, server) as team:
            before = team.model
            with pytest.raises(CannotStart, match='no model "sonet"'):
                await team.set_model("sonet")
            with pytest.raises(CannotStart, match="is not a provider"):
                await team.set_model("nowhere/model")
            with pytest.raises(UnknownMember):
                await team.set_model("haiku", "nobody")
            assert team.model == before
            assert not prefix_lines(team)
            await team.set_model("claude-test")
            assert team.model == "anthropic/claude-test"


@pytest.mark.promise("F61")
async def test_where_money_is_capped_a_model_without_a_price_is_refused(tmp_path):
    first = Named("first", ["One."])
    async with a_team(tmp_path, first, budget=Budget(usd=1.0)) as team:
        with pytest.raises(CannotStart, match="price"):
            await team.set_model(Named("dear", ["x"], usd_in=None, usd_out=None))
        assert team.model == "own/first"


@pytest.mark.promise("F43", "D8")
async def test_a_resume_goes_on_with_the_models_that_were_chosen_and_others_keep_theirs(tmp_path):
    with LoopbackModel.in_thread(lambda _body: "Well.") as server:
        async with wired(tmp_path, server) as team:
            await team.spawn("ada", "Hello.")
            await team.spawn("ben", "Hello.")
            sonnet = team.model
            opus = (await team.set_model("opus")).model
            haiku = (await team.set_model("haiku", "ben")).model
            await team.run("Go.")
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-test", "HOME": str(tmp_path)}
        async with Team.resume("crew", cwd=tmp_path / "work", home=tmp_path / "home", env=env) as team:
            assert team.model == opus != sonnet
            assert {m.name: m.model for m in team.members} == {"ada": sonnet, "ben": haiku}
            await team.run("Go on.")
        models = [body["model"] for body in server.bodies if "Go on." in json.dumps(body)]
    assert models and {f"anthropic/{name}" for name in models} == {opus}
