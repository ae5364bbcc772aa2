"""One process of W4: `python -m bench.w4_process SPEC` prints its figures as JSON.

SPEC has `kind` (layers, rules, mcp, http, member, spawn), `members`, `calls`, `prompts`, and `url` for http.
`layers`, `rules`, `mcp` and `http` build members as a session builds its teammates, without a roster entry and a
mailbox reader. `member` uses the public API: `Team.spawn` and `Member.send`. `spawn` grows one team, and measures
twenty spawns each time the team has as many members as `sizes` says.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from bench.fresh import ROOT
from bench.turns import ALLOWED, FUNCTIONS, HIDDEN, RULES_ALLOW, RULES_DENY, InstantModel
from bench.w2_process import LIMITS, rest
from teamwright import Member, Team
from teamwright.agent.agent import Agent
from teamwright.agent.conversation import UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.api.options import Hook, to_hooks
from teamwright.models.model import Part, Request
from teamwright.protocol.messages import text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import Incarnation
from teamwright.teams.incoming_mail import IncomingMail
from teamwright.teams.team_creation import create_team

PROMPT = "Look up the lines that matter and say what is in them."
FIRST = "Wait for mail."
TOOLS = 10
WARM = 3
"""Tool calls of one more member before the measurement: what a process builds once does not count."""
SPAWNS = 20
"""Members that are spawned for one figure."""
SERVER = {"command": sys.executable, "args": ["-m", "bench.served"], "cwd": str(ROOT)}
"""An MCP server, as a person configures it."""


def resident_kb() -> float:
    """Return the memory of this process (anonymous pages: the heap, without code)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    return float(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("RssAnon")))


def _look(payload: Mapping[str, Any]) -> None:
    """Do nothing: a hook without an answer."""


HOOKS = (Hook("PreToolUse", _look), Hook("PostToolUse", _look))
"""Two hooks that match every call."""


class GatedModel(InstantModel):
    """An instant model whose answers wait until `gate` is set. `waiting` counts the requests that wait."""

    def __init__(self) -> None:
        super().__init__(0)
        self.gate = asyncio.Event()
        self.waiting = 0
        self.came = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield one answer."""
        self.waiting += 1
        self.came.set()
        await self.gate.wait()
        self.waiting -= 1
        async for part in super().stream(request):
            yield part

    async def reach(self, requests: int) -> None:
        """Wait until that many requests wait."""
        while self.waiting < requests:
            self.came.clear()
            await self.came.wait()


async def build_member(session: Session, name: str) -> tuple[Agent, IncomingMail]:
    """Return one teammate with its mail as a spawn builds it, without the roster and the task that waits for mail."""
    team = session.team
    incarnation = Incarnation(1, str(team.home.agent_transcript(team.cwd, team.session, name)), "first")
    agent = await team.builder.build_teammate(SpawnSpec(PROMPT, name=name), team, incarnation)
    return agent, IncomingMail(name, team.mailbox(name), agent.conversation, agent.emit)


async def run_prompts(agent: Agent, mail: IncomingMail, calls: int, prompts: int) -> None:
    """Run the prompts to their final answers. Raises RuntimeError when a turn differs from what is measured."""
    for _ in range(prompts):
        end = await run_turn(agent, UserMessage((text_block(PROMPT),)), mail)
        if end.stop != "done" or end.tool_calls != calls:
            raise RuntimeError(f"{agent.name}: {end}")


def options(spec: dict[str, Any], root: Path, model: InstantModel) -> Options:
    """Return the options of the session that is measured."""
    http = spec["kind"] == "http"
    rules = spec["kind"] == "rules"
    servers = {"mcpServers": {"served": SERVER}} if spec["kind"] == "mcp" else {}
    env = {"ANTHROPIC_BASE_URL": spec.get("url", ""), "ANTHROPIC_API_KEY": "sk-bench-not-a-key"} if http else {}
    return Options(
        cwd=_directory(root / "work"),
        home=str(root / "state"),
        model="claude-haiku-4-5" if http else model,
        allowed_tools=RULES_ALLOW if rules else ALLOWED,
        disallowed_tools=(*HIDDEN, *(RULES_DENY if rules else ())),
        tools=FUNCTIONS,
        own_hooks=to_hooks(HOOKS) if rules else (),
        env=env,
        settings_file=_settings(root, servers),
    )


def public_team(root: Path, model: InstantModel) -> Team:
    """Return the same team through the public API."""
    return Team(
        "bench",
        cwd=_directory(root / "work"),
        home=root / "state",
        model=model,
        allowed_tools=ALLOWED,
        disallowed_tools=HIDDEN,
        tools=FUNCTIONS,
        env={},
        settings_file=_settings(root, {}),
    )


def _directory(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def _settings(root: Path, servers: Mapping[str, Any]) -> Path:
    file = root / "settings.json"
    file.write_text(json.dumps({**LIMITS, **servers}))
    return file


async def measure_layers(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the figures of members without roster and mailbox."""
    count, calls, prompts = spec["members"], spec["calls"], spec["prompts"]
    model = InstantModel(WARM)
    if spec["kind"] == "mcp":
        async with open_session(options(spec, root, InstantModel(0))):
            pass  # the first session that uses a server stores its list of tools
    async with open_session(options(spec, root, model)) as session:
        await create_team(session.team, "bench", None, None)
        if session.pruning is not None:
            await session.pruning  # old sessions are looked for once after a start, in another thread
        warm = calls if spec["kind"] == "http" else WARM
        await run_prompts(*await build_member(session, "warm"), warm, 1)
        model.begin(calls)
        gc.collect()
        before, cpu = resident_kb(), time.process_time()
        members = [await build_member(session, f"m{number}") for number in range(count)]
        spawned = time.process_time() - cpu
        gc.collect()
        idle = resident_kb()
        tools = TOOLS + (2 if spec["kind"] == "mcp" else 0)  # McpCall, and ToolSearch in place of the server's tools
        if len(members[0][0].toolbox.offered_tools) != tools:
            raise RuntimeError(f"not {tools} tools: {sorted(members[0][0].toolbox.names)}")
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(run_prompts(*member, calls, prompts) for member in members))
        session.log.flush()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        gc.collect()
        after = resident_kb()
        files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    return {
        **_times(spec, cpu, wall),
        "spawn_ms": spawned * 1_000 / count,
        "fresh_kb": (idle - before) / count,
        "kb": (after - before) / count,
        "files": files,
    }


async def measure_members(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the figures of whole members: message, wake-up, turn, idle notice to the lead."""
    count, calls, prompts = spec["members"], spec["calls"], spec["prompts"]
    model = InstantModel(0)
    async with public_team(root, model) as team:
        warm = await team.spawn("warm", FIRST)
        await _send(team, [warm], prompts=1)
        gc.collect()
        before, cpu = resident_kb(), time.process_time()
        members = [await team.spawn(f"m{number}", FIRST) for number in range(count)]
        await rest(team.session)
        spawned = time.process_time() - cpu
        gc.collect()
        idle = resident_kb()
        model.begin(calls)
        cpu, wall = time.process_time(), time.perf_counter()
        await _send(team, members, prompts)
        team.session.log.flush()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        gc.collect()
        after = resident_kb()
        _check_conversations(team, members, 2 + prompts * (2 * calls + 2))
    return {
        **_times(spec, cpu, wall),
        "spawn_ms": spawned * 1_000 / count,
        "fresh_kb": (idle - before) / count,
        "kb": (after - before) / count,
        "files": None,
    }


async def _send(team: Team, members: list[Member], prompts: int) -> None:
    """Send every member its prompts, one at a time, and wait until all of them are idle."""
    for number in range(prompts):
        for member in members:
            await member.send(f"{PROMPT} This is number {number}.")
        await rest(team.session)


def _check_conversations(team: Team, members: list[Member], messages: int) -> None:
    names = {member.name for member in members}
    teammates = [teammate for teammate in team.session.team.running_members if teammate.name in names]
    short = [teammate.name for teammate in teammates if len(teammate.agent.conversation.items) != messages]
    if short or len(teammates) != len(members):
        raise RuntimeError(f"not {messages} messages in the conversations of {short or 'missing members'}")


async def measure_spawns(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the CPU time of a spawn until the member's first model request, for each size of the team."""
    model = GatedModel()
    figures: dict[str, float] = {}
    async with public_team(root, model) as team:
        spawned = 0
        for size in spec["sizes"]:
            while spawned < size:
                spawned += 1
                await team.spawn(f"m{spawned}", FIRST)
            model.gate.set()
            await rest(team.session)
            model.gate.clear()
            gc.collect()
            cpu = time.process_time()
            for number in range(SPAWNS):
                await team.spawn(f"n{size}-{number}", FIRST)
            await model.reach(SPAWNS)
            figures[str(size)] = (time.process_time() - cpu) * 1_000 / SPAWNS
            spawned += SPAWNS
        model.gate.set()
        await rest(team.session)
    return figures


def _times(spec: dict[str, Any], cpu: float, wall: float) -> dict[str, float]:
    """Return milliseconds for one tool call, or for one whole turn when a prompt has at most one call."""
    units = spec["members"] * spec["prompts"] * max(1, spec["calls"])
    return {"cpu_ms": cpu * 1_000 / units, "wall_ms": wall * 1_000 / units}


MEASURES = {"member": measure_members, "spawn": measure_spawns}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(asyncio.run(MEASURES.get(spec["kind"], measure_layers)(spec, Path(root)))))


if __name__ == "__main__":
    main()
