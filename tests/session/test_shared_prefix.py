"""The common beginning of the requests of a lead and its teammates, which a service reads from its cache."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.api.team import Team
from teamwright.models.model import ModelCard, price_usage
from teamwright.models.stream import AnswerAssembly
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S

HOUR = {"type": "ephemeral", "ttl": "1h"}
FIVE_MINUTES = {"type": "ephemeral"}


def who(body: dict[str, Any]) -> str:
    """The agent whose request it is."""
    return teammate_of(body) or "lead"


def marks(body: dict[str, Any]) -> list[dict[str, str]]:
    """The cache breakpoints, in the order in which the service reads them."""
    content = [block for message in body["messages"] for block in message["content"]]
    return [part["cache_control"] for part in (*body["tools"], *body["system"], *content) if "cache_control" in part]


@pytest.mark.finding("T20")
async def test_lead_and_teammates_share_a_cached_prefix_and_a_lead_that_waits_is_cached_for_an_hour(
    tmp_path, monkeypatch
):
    settings = tmp_path / "settings.json"
    settings.write_text('{"cache_hour": "on"}')
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Use tabs.")
    async with LoopbackModel(["Ok."] * 8) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        given = {"cwd": work, "home": tmp_path / "home", "settings_file": settings, "model": "sonnet"}
        async with Team("crew", **given) as team:
            await asyncio.wait_for(team.run("Begin."), WAIT_S)
            for name in ("ada", "ben"):
                await team.spawn(name, f"You are {name}: wait.")
            for prompt in ("Wait for them.", "And again."):
                await asyncio.wait_for(team.run(prompt), WAIT_S)
        requests = [request.json for request in server.requests]
        heads = [request.body.partition(b',"messages":')[0] for request in server.requests]
    bodies = {name: [body for body in requests if who(body) == name] for name in ("lead", "ada", "ben")}
    lead, ada, ben = bodies["lead"][0], bodies["ada"][0], bodies["ben"][0]
    shared = len(ada["tools"])
    assert json.dumps(lead["tools"][:shared]) == json.dumps(ada["tools"]) == json.dumps(ben["tools"])
    assert lead["tools"][shared:] == [], "ToolSearch finds the tools of the lead alone"
    assert json.dumps(lead["system"][0]) == json.dumps(ada["system"][0]) == json.dumps(ben["system"][0])
    assert "Use tabs." in ada["messages"][0]["content"][0]["text"]
    assert "cache_control" in ada["tools"][-1] and "cache_control" in ada["system"][0]
    assert set(map(json.dumps, marks(lead) + marks(ada) + marks(ben))) == {json.dumps(FIVE_MINUTES)}
    waiting = bodies["lead"][1:]
    assert len(waiting) >= 2 and all(set(map(json.dumps, marks(body))) == {json.dumps(HOUR)} for body in waiting)
    assert all(2 <= len(marks(body)) <= 4 for body in requests), "a service takes four breakpoints"
    of_lead = [head for head, body in zip(heads, requests, strict=True) if who(body) == "lead"]
    assert len(set(of_lead[1:])) == 1 and of_lead[0] == of_lead[1].replace(b',"ttl":"1h"', b""), "to the byte"


async def heads_of_a_session(place: Path, instructions: str, team_name: str) -> dict[str, set[bytes]]:
    """The bytes before the messages of all requests of a session, by the agent that sent them."""
    work = place / "work"
    work.mkdir(parents=True)
    (work / "AGENTS.md").write_text(instructions)
    sub = Answer("", [("Agent", {"description": "look", "prompt": "Find it.", "subagent_type": "Explore"})])

    def play(body: dict[str, Any]) -> Answer | str:
        begins = len(body["messages"]) == 1 and "two to four teammates" in json.dumps(body["system"])
        return sub if begins else "Ok."

    async with LoopbackModel(play) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ANTHROPIC_BASE_URL", server.url)
            patch.setenv("ANTHROPIC_API_KEY", "sk-test")
            async with Team(team_name, cwd=work, home=place / "home", model="sonnet") as team:
                for name in ("ada", "ben"):
                    await team.spawn(name, f"You are {name}: wait.")
                await asyncio.wait_for(team.run("Begin."), WAIT_S)
        found: dict[str, set[bytes]] = {}
        for request in server.requests:
            name = "Explore" if "You find things in code" in json.dumps(request.json["system"]) else who(request.json)
            found.setdefault(name, set()).add(request.body.partition(b',"messages":')[0])
    return found


@pytest.mark.finding("R3")
async def test_all_agents_of_a_type_send_the_same_bytes_before_their_messages_in_every_session(tmp_path):
    one = await heads_of_a_session(tmp_path / "one", "Use tabs.", "crew")
    other = await heads_of_a_session(tmp_path / "other", "Use four blanks.", "band")
    assert set(one) == {"lead", "ada", "ben", "Explore"}
    assert one == other and all(len(heads) == 1 for heads in one.values())
    assert one["ada"] == one["ben"]


@pytest.mark.finding("T20")
def test_what_a_service_caches_for_an_hour_is_priced_higher():
    assembly = AnswerAssembly()
    kinds = {"ephemeral_5m_input_tokens": 400_000, "ephemeral_1h_input_tokens": 600_000}
    counts = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 1_000_000, "cache_creation": kinds}
    assembly.add_event({"type": "message_start", "message": {"usage": counts}})
    card = ModelCard("a/b", "b", "a", usd_in=4.0, usd_out=20.0, usd_cache_write=5.0)
    assert price_usage(card, assembly.usage()).usd == pytest.approx(0.4 * 5.0 + 0.6 * 8.0)
