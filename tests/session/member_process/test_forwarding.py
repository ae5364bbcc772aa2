"""What is done with a member by name is done where it lives: the same outcome and the same errors as at home."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from teamwright import CannotStart, Team, TeamRefused, UnknownMember
from teamwright.protocol.events import (
    LIVE,
    AssistantText,
    ModelChanged,
    TeamEvent,
    TextDelta,
    ToolCalled,
    ToolStarted,
    TurnEnded,
)
from teamwright.session.control.person_actions import list_jobs, move_to_background, stop_task
from teamwright.testing import LoopbackModel, ScriptedModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S

OPUS = "claude-opus-4-5"


class Told:
    """Events of a team, and waiting for one of them."""

    def __init__(self, team: Team) -> None:
        self.events: list[TeamEvent] = []
        self._came = asyncio.Event()
        self.leave = team.session.log.subscribe(self.note)

    def note(self, _number: int, event: TeamEvent) -> None:
        self.events.append(event)
        self._came.set()

    async def until(self, says) -> TeamEvent:
        """The first event that is so."""
        async with asyncio.timeout(WAIT_S):
            while (found := next((one for one in self.events if says(one)), None)) is None:
                self._came.clear()
                await self._came.wait()
        return found


def over(name: str):
    """Its turn is over."""
    return lambda event: isinstance(event, TurnEnded) and event.member == name


@asynccontextmanager
async def crew(tmp_path: Path, play, **more: Any) -> AsyncGenerator[tuple[Team, Told, LoopbackModel]]:
    """A team whose members have processes of their own, and no terminal."""
    (tmp_path / "work").mkdir(exist_ok=True)
    async with LoopbackModel(play) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-none"}
        env["PATH"] = os.environ["PATH"]
        options = {"cwd": tmp_path / "work", "home": tmp_path / "home", "env": env, "backend": "detached", **more}
        async with Team("crew", **options) as team:
            yield team, Told(team), server


def words(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


@pytest.mark.promise("H6")
async def test_what_fills_a_window_is_told_of_a_member_in_a_process_of_its_own(tmp_path):
    async with crew(tmp_path, lambda _body: "word " * 2_000) as (team, told, _):
        await team.spawn("ann", "Say much.")
        await told.until(over("ann"))
        view = await team.context("ann")
        assert view.member == "ann" and view.measured
        assert {part.name: part.tokens for part in view.parts}["messages"] > 1_500
        with pytest.raises(UnknownMember, match="'anna' is not in team") as caught:
            await team.context("anna")
        assert "did you mean ann?" in caught.value.render()


@pytest.mark.promise("H6")
async def test_a_member_in_a_process_of_its_own_has_another_model_from_its_next_call_on(tmp_path):
    async with crew(tmp_path, lambda _body: "Done.") as (team, told, server):
        await team.spawn("ann", "Begin.")
        await told.until(over("ann"))
        made = await team.set_model(OPUS, "ann")
        assert made.member == "ann" and made.model == f"anthropic/{OPUS}"
        await told.until(lambda event: isinstance(event, ModelChanged) and event.member == "ann")
        assert next(one.model for one in team.members if one.name == "ann") == f"anthropic/{OPUS}"
        await team.send("ann", "Go on with the other one.")
        await told.until(lambda _: server.bodies[-1]["model"] == OPUS)
        roster = json.loads((tmp_path / "home/teams/crew/config.json").read_text())
        assert [one["model"] for one in roster["members"]][1] == f"anthropic/{OPUS}"
        assert not [one for one in told.events if one.KIND == "notice" and "roster" in one.text], (
            "nobody took the roster for overwritten"
        )
        assert str(await team.set_model(OPUS, "ann")) == f"ann has anthropic/{OPUS} already"


@pytest.mark.promise("H6")
@pytest.mark.slow
async def test_what_cannot_be_had_is_an_error_as_at_home_and_changes_nothing(tmp_path):
    async with crew(tmp_path, lambda _body: "Done.") as (team, told, _):
        await team.spawn("ann", "Begin.")
        await told.until(over("ann"))
        before = team.members[0].model
        with pytest.raises(TeamRefused, match="cannot receive a model object"):
            await team.set_model(ScriptedModel(["No."]), "ann")
        with pytest.raises(CannotStart):
            await team.set_model("nobody/knows-this", "ann")
        assert team.members[0].model == before


@pytest.mark.promise("H6")
@pytest.mark.slow
async def test_a_member_in_a_process_of_its_own_is_compacted(tmp_path):
    def play(body: dict[str, Any]) -> str:
        return "SUMMARY of all." if "word word" in words(body) else "word " * 3_000

    async with crew(tmp_path, play) as (team, told, _):
        await team.spawn("ann", "Say much.")
        await told.until(over("ann"))
        told.events.clear()
        await team.send("ann", "And more.")
        await told.until(over("ann"))
        made = await team.compact("ann", "the names")
        assert made.done, made.why
        assert made.after < made.before
        await told.until(lambda event: event.KIND == "compacted" and event.state == "done" and event.member == "ann")


@pytest.mark.promise("H4")
@pytest.mark.slow
async def test_a_reload_reaches_members_in_processes_of_their_own(tmp_path):
    async with crew(tmp_path, lambda _body: "Done.") as (team, told, server):
        await team.spawn("ann", "Begin.")
        await told.until(over("ann"))
        assert "BLUE" not in json.dumps(server.bodies[-1])
        (tmp_path / "work/AGENTS.md").write_text("Paint it BLUE.")
        made = await team.reload()
        assert made.members == ("team-lead", "ann")
        told.events.clear()
        await team.send("ann", "Once more.")
        await told.until(over("ann"))
        assert "BLUE" in json.dumps(server.bodies[-1]["messages"])
        assert len([one for one in told.events if one.KIND == "reloaded"]) <= 1, "one event tells of all"


@pytest.mark.promise("row F4")
@pytest.mark.slow
async def test_what_a_member_elsewhere_waits_for_is_listed_moved_and_stopped_from_the_lead(tmp_path):
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work/gate")

    def play(body: dict[str, Any]) -> Answer | str:
        if "Wait for it" in words(body) and "tool_result" not in words(body):
            return Answer(tools=[("Bash", {"command": "cat gate", "description": "waits"})])
        return "Done."

    async with crew(tmp_path, play, permission_mode="bypassPermissions") as (team, told, _):
        await team.spawn("ann", "Wait for it.")
        await told.until(lambda event: event.KIND == "progress" or event.KIND == "model_call_ended")
        session = team.session
        moved: list[str] = []
        async with asyncio.timeout(WAIT_S):
            while not moved:
                moved = await move_to_background(session, "ann")
        [line] = moved
        await told.until(over("ann"))
        [running] = await list_jobs(session, "ann")
        id = running.split()[0]
        assert "gate" in line
        assert str(await stop_task(session, id)).endswith("was stopped")
        assert await list_jobs(session, "ann") == []


@pytest.mark.promise("F67")
@pytest.mark.slow
async def test_what_a_member_elsewhere_says_is_shown_while_it_says_it_to_whoever_watches_meanwhile(tmp_path):
    def play(body: dict[str, Any]) -> Answer | str:
        if "Look" in words(body) and "tool_result" not in words(body):
            return Answer("I look.", tools=[("Glob", {"pattern": "*"})])
        return "Seen."

    async with crew(tmp_path, play) as (team, told, _):
        log = team.session.log
        told.leave()
        unwatch = log.subscribe(told.note, live=False)
        await team.spawn("ann", "Begin.")
        await told.until(over("ann"))
        assert not [one for one in told.events if isinstance(one, LIVE)], "nobody wanted them"
        unwatch()
        told.events.clear()
        log.subscribe(told.note)
        await team.send("ann", "Look around.")
        await told.until(over("ann"))
        live = [one for one in told.events if isinstance(one, LIVE) and one.member == "ann"]
        assert "".join(one.text for one in live if isinstance(one, TextDelta)) == "I look.Seen."
        [began] = [one for one in live if isinstance(one, ToolStarted)]
        [ran] = [one for one in told.events if isinstance(one, ToolCalled) and one.member == "ann"]
        assert (began.tool, began.call) == ("Glob", ran.call)
        said = [one for one in live if isinstance(one, AssistantText) and one.message["role"] == "assistant"]
        assert [one.content[0]["text"] for one in said] == ["I look.", "Seen."]
        assert said[0].usage is not None and said[0].agent_id
