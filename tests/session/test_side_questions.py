"""Side questions: an agent answers from what it knows, while it works, and its conversation never contains them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from teamwright import Budget, LimitExceeded, SideCallEnded, Team, TeamRefused, UnknownMember, UsageError
from teamwright.agent.conversation import RUNNING_RESULT
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from teamwright.views.cost import session_cost
from tests.support.model_requests import newest_text
from tests.support.waits import WAIT_S

QUESTION = "Which file do you read?"


class Gate:
    """A tool that runs until it is opened."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()

    async def hold(self) -> str:
        """Wait until the gate is open."""
        self.begun.set()
        await self.open.wait()
        return "open"


def team_on(server: LoopbackModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Team:
    """A team whose models are this server."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    (tmp_path / "work").mkdir(exist_ok=True)
    more = {"permission_mode": "bypassPermissions", "model": "sonnet", **more}
    return Team("crew", cwd=tmp_path / "work", home=tmp_path / "home", **more)


def cached_part(body: dict[str, Any]) -> tuple[str, list[str]]:
    """What a service compares with its cache: tools and system prompt, and each message, without the marks."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items() if key != "cache_control"}
        return [plain(part) for part in value] if isinstance(value, list) else value

    head = json.dumps([plain(body["tools"]), plain(body["system"]), body["model"]])
    blocks = [json.dumps([one["role"], plain(block)]) for one in body["messages"] for block in one["content"]]
    return head, blocks


def is_side_question(body: dict[str, Any]) -> bool:
    return QUESTION in newest_text(body)


@pytest.mark.finding("S4")
async def test_a_working_agent_answers_in_passing_from_its_cached_prefix_and_never_knows(tmp_path, monkeypatch):
    gate = Gate()

    def play(body: dict[str, Any]) -> Answer | str:
        if is_side_question(body):
            return "I read **setup.py**."
        held = any("tool_result" in json.dumps(message) for message in body["messages"])
        return "All done." if held else Answer("I wait.", tools=[("python__hold", {})])

    async with LoopbackModel(play) as server, team_on(server, tmp_path, monkeypatch, tools=[gate.hold]) as team:
        events: list[Any] = []
        team.session.log.subscribe(lambda _number, event: events.append(event))
        run = team.run("Begin.")
        await asyncio.wait_for(gate.begun.wait(), WAIT_S)
        assert await asyncio.wait_for(team.ask(f"  {QUESTION} "), WAIT_S) == "I read **setup.py**."
        gate.open.set()
        result = await asyncio.wait_for(run, WAIT_S)
        assert result.text == "All done."
        path = team.session.lead.agent.conversation.path
        cost = await session_cost(team.session)
    first, asked, last = (request.json for request in server.requests)
    head, blocks = cached_part(first)
    asked_head, asked_blocks = cached_part(asked)
    assert asked_head == head and asked_blocks[: len(blocks)] == blocks, "all of the request before is in the cache"
    assert RUNNING_RESULT in json.dumps(asked["messages"]), "the call that runs has a result that says so"
    assert asked["max_tokens"] < first["max_tokens"]
    assert QUESTION not in json.dumps(last) and QUESTION not in path.read_text()
    [event] = [event for event in events if isinstance(event, SideCallEnded)]
    assert (event.question, event.text, event.by, event.member) == (
        QUESTION,
        "I read **setup.py**.",
        "program",
        "team-lead",
    )
    assert [(row.name, row.model_calls) for row in cost.beside] == [("side question", 1)]
    assert cost.total.model_calls == 3 and cost.beside[0].tokens_out < cost.total.tokens_out


@pytest.mark.finding("S4")
async def test_a_teammate_is_asked_by_name_while_it_is_idle_and_its_usage_is_its_own(tmp_path, monkeypatch):
    def play(body: dict[str, Any]) -> str:
        return "Nothing yet." if is_side_question(body) else "Ok."

    async with LoopbackModel(play) as server, team_on(server, tmp_path, monkeypatch) as team:
        await team.spawn("ada", "Wait for mail.")
        await asyncio.wait_for(team.wait_idle(), WAIT_S)
        [before] = [teammate.agent.conversation.items for teammate in team.session.team.in_process_members]
        lines = list(before)
        assert await asyncio.wait_for(team.ask(QUESTION, "ada"), WAIT_S) == "Nothing yet."
        assert before == lines
        cost = await session_cost(team.session)
        with pytest.raises(UnknownMember):
            await team.ask(QUESTION, "adda")
        with pytest.raises(UsageError, match="empty"):
            await team.ask("  ", "ada")
    assert [row.model_calls for row in cost.members if row.name == "ada"] == [2]


@pytest.mark.finding("S4")
async def test_a_cap_that_is_spent_refuses_a_side_question_and_a_failing_service_is_named(tmp_path, monkeypatch):
    def play(body: dict[str, Any]) -> Status | str:
        return Status(400, "no such thing") if is_side_question(body) else "Ok."

    async with LoopbackModel(play) as server, team_on(server, tmp_path, monkeypatch) as team:
        await asyncio.wait_for(team.run("Begin."), WAIT_S)
        with pytest.raises(TeamRefused, match="no such thing"):
            await asyncio.wait_for(team.ask(QUESTION), WAIT_S)
        assert (await asyncio.wait_for(team.run("Go on."), WAIT_S)).text == "Ok.", "its work is not affected"
        sent = len(server.requests)
    assert sent == 3
    spent = Answer("Ok.", usage={"input_tokens": 29_990, "output_tokens": 5})
    async with LoopbackModel([spent]) as server:
        async with team_on(server, tmp_path, monkeypatch, replace=True, budget=Budget(tokens=30_000)) as team:
            await asyncio.wait_for(team.run("Begin."), WAIT_S)
            with pytest.raises(LimitExceeded):
                await asyncio.wait_for(team.ask(QUESTION), WAIT_S)
        assert len(server.requests) == 1


@pytest.mark.finding("S4")
async def test_a_side_question_that_is_cancelled_leaves_the_turn_alone(tmp_path, monkeypatch):
    gate = Gate()
    asked = asyncio.Event()

    async def play(body: dict[str, Any]) -> Answer | str:
        if is_side_question(body):
            asked.set()
            await asyncio.Event().wait()
        held = any("tool_result" in json.dumps(message) for message in body["messages"])
        return "All done." if held else Answer("I wait.", tools=[("python__hold", {})])

    async with LoopbackModel(play) as server, team_on(server, tmp_path, monkeypatch, tools=[gate.hold]) as team:
        run = team.run("Begin.")
        await asyncio.wait_for(gate.begun.wait(), WAIT_S)
        question = asyncio.create_task(team.ask(QUESTION))
        await asyncio.wait_for(asked.wait(), WAIT_S)
        question.cancel()
        await asyncio.gather(question, return_exceptions=True)
        gate.open.set()
        assert (await asyncio.wait_for(run, WAIT_S)).text == "All done."
        assert QUESTION not in team.session.lead.agent.conversation.path.read_text()


@pytest.mark.finding("S4")
async def test_a_side_question_ends_with_its_session_and_outlives_a_clear_and_another_model(tmp_path, monkeypatch):
    asked = asyncio.Event()

    async def play(body: dict[str, Any]) -> str:
        if is_side_question(body):
            asked.set()
            await asyncio.Event().wait()
        return "Ok."

    async with LoopbackModel(play) as server:
        async with team_on(server, tmp_path, monkeypatch) as team:
            await asyncio.wait_for(team.run("Begin."), WAIT_S)
            question = asyncio.create_task(team.ask(QUESTION))
            await asyncio.wait_for(asked.wait(), WAIT_S)
            assert (await asyncio.wait_for(team.clear(), WAIT_S)).done
            await asyncio.wait_for(team.set_model("opus"), WAIT_S)
            assert (await asyncio.wait_for(team.run("More."), WAIT_S)).text == "Ok."
            assert not question.done()
        with pytest.raises(TeamRefused, match="the session ended"):
            await asyncio.wait_for(question, WAIT_S)
