"""The common beginning of the requests of a lead and its teammates, which a service reads from its cache."""

import asyncio
import json
from typing import Any

import pytest

from teamwright.agent.agent_type import LEAD_ONLY
from teamwright.api.team import Team
from teamwright.models.model import ModelCard, price_usage
from teamwright.models.stream import AnswerAssembly
from teamwright.testing.model_server import LoopbackModel
from tests.support.waits import WAIT_S

HOUR = {"type": "ephemeral", "ttl": "1h"}
FIVE_MINUTES = {"type": "ephemeral"}


def who(body: dict[str, Any]) -> str:
    """The agent whose request it is, by the last block of its system prompt."""
    text = body["system"][-1]["text"]
    return next((name for name in ("ada", "ben") if f"# You are {name}," in text), "lead")


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
    assert {tool["name"] for tool in lead["tools"][shared:]} == LEAD_ONLY
    assert json.dumps(lead["system"][0]) == json.dumps(ada["system"][0]) == json.dumps(ben["system"][0])
    assert "Use tabs." in ada["system"][0]["text"] and "ada" not in ada["system"][0]["text"]
    assert "cache_control" in ada["tools"][-1] and "cache_control" in ada["system"][0]
    assert set(map(json.dumps, marks(lead) + marks(ada) + marks(ben))) == {json.dumps(FIVE_MINUTES)}
    waiting = bodies["lead"][1:]
    assert len(waiting) >= 2 and all(set(map(json.dumps, marks(body))) == {json.dumps(HOUR)} for body in waiting)
    assert all(2 <= len(marks(body)) <= 4 for body in requests), "a service takes four breakpoints"
    of_lead = [head for head, body in zip(heads, requests, strict=True) if who(body) == "lead"]
    assert len(set(of_lead[1:])) == 1 and of_lead[0] == of_lead[1].replace(b',"ttl":"1h"', b""), "to the byte"


@pytest.mark.finding("T20")
def test_what_a_service_caches_for_an_hour_is_priced_higher():
    assembly = AnswerAssembly()
    kinds = {"ephemeral_5m_input_tokens": 400_000, "ephemeral_1h_input_tokens": 600_000}
    counts = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 1_000_000, "cache_creation": kinds}
    assembly.add_event({"type": "message_start", "message": {"usage": counts}})
    card = ModelCard("a/b", "b", "a", usd_in=4.0, usd_out=20.0, usd_cache_write=5.0)
    assert price_usage(card, assembly.usage()).usd == pytest.approx(0.4 * 5.0 + 0.6 * 8.0)
