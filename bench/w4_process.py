"""One process of W4: `python -m bench.w4_process SPEC` prints its figures as JSON.

SPEC: `kind` (layers, rules, mcp, http, team), `members`, `turns`, and `url` for http. Members are made as a session
makes its teammates: transcript on disk, permissions, events to the log, ten tools, mail looked for between rounds. For
`mcp` a server with fifty tools is configured that an earlier session has seen: its schemas are on disk. Those of `team`
are spawned whole: roster, inbox, a life of their own; each gets a letter, and all take their turns together.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import served
from bench.fresh import ROOT
from bench.turns import ALLOWED, FUNCTIONS, HIDDEN, RULES_ALLOW, RULES_DENY, InstantModel
from bench.w2_process import LIMITS, rest
from teamwright.agent.agent import Agent
from teamwright.agent.conversation import UserMessage
from teamwright.agent.loop import run_turn
from teamwright.api.hook import Hook, to_hooks
from teamwright.protocol.messages import text_block
from teamwright.session.open import open_session
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.teams.creation import create_team
from teamwright.teams.mailbox.incoming import IncomingMail
from teamwright.teams.mailbox.outgoing import send_text
from teamwright.teams.spawn import spawn
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.team_file import Incarnation

PROMPT = "Look up the lines that matter and say what is in them."
TOOLS = 10
WARM = 3
"""Tool turns of one more member before anything is measured: what is built once a process is not a turn's."""


def resident_kb() -> float:
    """Memory that this process holds now (anonymous pages: the heap, without code)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    return float(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("RssAnon")))


def _nothing(payload: Mapping[str, Any]) -> None:
    """A hook that looks and says nothing."""


SERVER = {"command": sys.executable, "args": ["-m", "bench.served"], "cwd": str(ROOT)}
"""As a person configures a server."""


HOOKS = (Hook("PreToolUse", _nothing), Hook("PostToolUse", _nothing))
"""Two that match every call."""


async def member(session: Session, name: str) -> Agent:
    """One teammate, as a spawn makes it, without the roster and the coroutine that waits for mail."""
    team = session.team
    life = Incarnation(1, str(team.home.agent_transcript(team.cwd, team.session, name)), "first")
    agent = await session.maker.build_teammate(SpawnSpec(PROMPT, name=name), team, life)
    agent.steering = IncomingMail(name, session.team.inbox(name), agent.conversation, agent.emit)
    return agent


async def turn(agent: Agent, turns: int) -> None:
    """One prompt to its final answer. Raises RuntimeError when it went otherwise than measured."""
    end = await run_turn(agent, UserMessage((text_block(PROMPT),)))
    if end.stop != "done" or end.tool_calls != turns:
        raise RuntimeError(f"{agent.name}: {end}")


def options(spec: dict[str, Any], root: Path, model: InstantModel) -> Options:
    """The options of the session that is measured."""
    http = spec["kind"] == "http"
    rules = spec["kind"] == "rules"
    servers = {"mcpServers": {"served": SERVER}} if spec["kind"] == "mcp" else {}
    env = {"ANTHROPIC_BASE_URL": spec.get("url", ""), "ANTHROPIC_API_KEY": "sk-bench-not-a-key"} if http else {}
    (root / "work").mkdir(exist_ok=True)
    settings = root / "settings.json"
    settings.write_text(json.dumps({**LIMITS, **servers}))
    return Options(
        cwd=root / "work",
        home=str(root / "state"),
        model="claude-haiku-4-5" if http else model,
        allowed_tools=RULES_ALLOW if rules else ALLOWED,
        disallowed_tools=(*HIDDEN, *(RULES_DENY if rules else ())),
        tools=FUNCTIONS,
        own_hooks=to_hooks(HOOKS) if rules else (),
        env=env,
        settings_file=settings,
    )


async def measure(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """The figures: milliseconds of CPU and wall time a tool turn, of CPU a spawn; kB a member."""
    count, turns = spec["members"], spec["turns"]
    model = InstantModel(WARM)
    if spec["kind"] == "mcp":
        async with open_session(options(spec, root, InstantModel(0))):
            pass  # the first session that is told of a server has its list kept
    async with open_session(options(spec, root, model)) as session:
        await create_team(session.team, "bench", None, None)
        if spec["kind"] == "http":
            await turn(await member(session, "warm"), turns)
        else:
            await turn(await member(session, "warm"), WARM)
        model.turns = turns
        gc.collect()
        before, cpu = resident_kb(), time.process_time()
        agents = [await member(session, f"m{number}") for number in range(count)]
        spawned = time.process_time() - cpu
        gc.collect()
        idle = resident_kb()
        tools = TOOLS + (served.TOOLS + 1 if spec["kind"] == "mcp" else 0)  # and McpCall
        if len(agents[0].toolbox.tools) != tools:
            raise RuntimeError(f"not {tools} tools: {sorted(agents[0].toolbox.names)}")
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(turn(agent, turns) for agent in agents))
        session.log.flush()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        gc.collect()
        after = resident_kb()
        files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    per_turn = 1_000 / (count * turns)
    return {
        "cpu_ms": cpu * per_turn,
        "wall_ms": wall * per_turn,
        "spawn_ms": spawned * 1_000 / count,
        "fresh_kb": (idle - before) / count,
        "kb": (after - before) / count,
        "files": files,
    }


async def together(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """The figures of a whole team: everybody is idle, gets a letter, and takes a turn of `turns` calls."""
    count, turns = spec["members"], spec["turns"]
    model = InstantModel(0)
    async with open_session(options(spec, root, model)) as session:
        await create_team(session.team, "bench", None, None)
        await spawn(session.team, SpawnSpec("Wait for mail.", name="warm"))
        await rest(session)
        gc.collect()
        before, cpu = resident_kb(), time.process_time()
        for number in range(count):
            await spawn(session.team, SpawnSpec("Wait for mail.", name=f"m{number}"))
        await rest(session)
        spawned = time.process_time() - cpu
        gc.collect()
        idle = resident_kb()
        model.begin(turns)
        cpu, wall = time.process_time(), time.perf_counter()
        for number in range(count):
            await send_text(session.team, "team-lead", f"m{number}", PROMPT)
        await rest(session)
        session.log.flush()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        gc.collect()
        after = resident_kb()
        turned = sum(len(mate.agent.conversation.items) for mate in session.team.running_members if mate.name != "warm")
        if turned < count * (2 * turns + 4):
            raise RuntimeError(f"{turned} messages in {count} conversations: not everybody took the turn")
    per_turn = 1_000 / (count * turns)
    return {
        "cpu_ms": cpu * per_turn,
        "wall_ms": wall * per_turn,
        "spawn_ms": spawned * 1_000 / count,
        "fresh_kb": (idle - before) / count,
        "kb": (after - before) / count,
        "files": None,
    }


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(asyncio.run((together if spec["kind"] == "team" else measure)(spec, Path(root)))))


if __name__ == "__main__":
    main()
