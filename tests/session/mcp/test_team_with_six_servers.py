"""A team of a lead and three members that work with six real servers, one of them behind a login."""

import asyncio
import json
import sys
from contextlib import ExitStack

import pytest

from teamwright import Team
from teamwright.mcp.server_config import ConfigSource, parse_servers
from teamwright.member_process.mcp_login import LoginRequest, log_in
from teamwright.protocol.events import RequestOpened
from teamwright.team_records.snapshots import resolve_home
from teamwright.testing import Call, ScriptedModel
from tests.mcp.conftest import SERVER
from tests.mcp.sdk_processes import LIBRARY, SDK, behind_an_address, open_page, vault
from tests.support.waits import WAIT_S


def stdio(*args: str) -> dict:
    return {"command": sys.executable, "args": list(args)}


@pytest.mark.slow
@pytest.mark.finding("C5")
@pytest.mark.promise("H7", "row L5")
async def test_three_members_use_six_servers_one_of_them_behind_a_login(tmp_path):
    with ExitStack() as stack:
        servers = {
            "plain": stdio(SERVER, "resources"),
            "sums": stdio(SDK, "stdio"),
            "library": stdio(LIBRARY),
            "events": {"type": "http", "url": stack.enter_context(behind_an_address("events"))},
            "stream": {"type": "sse", "url": stack.enter_context(behind_an_address("sse"))},
            "vault": {"type": "http", "url": stack.enter_context(vault())},
        }
        await store_login(tmp_path, servers["vault"])
        model = ScriptedModel(Work())
        settings = tmp_path / "settings.json"
        settings.write_text(json.dumps({"mcp": {"wait_s": WAIT_S}}))
        options = {"cwd": tmp_path, "permission_mode": "bypassPermissions", "settings_file": settings}
        async with Team("crew", model=model, mcp_servers=servers, on_request=answer, **options) as team:
            result = await team.run("Let the members work.")
            states = {one.name: one.state for one in team.session.agent_factory.toolset.serving.views()}
    assert result.ok and states == dict.fromkeys(servers, "running")
    said = {name: results(model, name) for name in ("ann", "ben", "cleo")}
    assert said["ann"] == ["the vault is open", "7", "hi"]
    assert said["ben"] == ["accept {'reader': 'Ben', 'days': 14, 'shelf': 'fiction', 'renew': False}", "9"]
    assert said["cleo"][0].endswith("Emma begins on page 1.") and said["cleo"][1:] == ["the vault is open", "three"]


class Work:
    """What each agent does: its calls in their order, then a last sentence."""

    def __init__(self) -> None:
        spawn = [
            Call("Agent", {"name": name, "description": "Work", "prompt": "Work."}) for name in ("ann", "ben", "cleo")
        ]
        self.steps = {
            "team-lead": [spawn],
            "ann": [
                Call("mcp__vault__secret", {}),
                Call("mcp__sums__add", {"a": 3, "b": 4}),
                Call("mcp__plain__echo", {"text": "hi"}),
            ],
            "ben": [Call("mcp__library__lend", {}), Call("mcp__events__add", {"a": 4, "b": 5})],
            "cleo": [
                Call("ReadMcpResource", {"server": "library", "uri": "book://Emma"}),
                Call("mcp__vault__secret", {}),
                Call("mcp__stream__count", {}),
            ],
        }

    def __call__(self, request):
        left = self.steps[request.agent_name]
        return left.pop(0) if left else "Done."


async def answer(event: RequestOpened) -> None:
    await event.answer("Ben" if "Reader" in event.what else "leave out")


async def store_login(root, entry: dict) -> None:
    home = resolve_home(None)
    home.prepare()
    [config], _ = parse_servers({"vault": entry}, ConfigSource("a test", root, {}))
    pages = []

    def show(address: str) -> None:
        pages.append(asyncio.ensure_future(asyncio.to_thread(open_page, address)))

    assert await log_in(home, config, LoginRequest(timeout_s=WAIT_S), show) == 2
    await asyncio.gather(*pages)


def results(model: ScriptedModel, agent: str) -> list[str]:
    last = [request for request in model.requests if request.agent_name == agent][-1]
    blocks = [block for item in last.items for block in json.loads(item)["content"] if isinstance(block, dict)]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]
