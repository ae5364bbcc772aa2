"""Every field of a definition on every route: the same effect for a sub-agent and for a teammate, or a plain word."""

import asyncio
import base64
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.config.agent_type_fields import FIELDS
from teamwright.models.effort import prefix_effort
from teamwright.models.model import ModelCard
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.events import Notice
from teamwright.testing import ScriptedModel
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.program import KEY
from tests.ui.subagents.play import first_words

ROUTES = ("sub-agent", "teammate", "fork", "process")
"""A fork has no definition: here a teammate of the kind forks itself, and what is looked at is its fork. `process` is a
teammate in a process of its own, whose requests are read where its model's service is."""

FORKED = {"description": "copy", "prompt": "Now you."}


@dataclass
class Ran:
    """What became of one agent: what it was offered, told and answered, and what its caller and people read."""

    head: dict = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    rounds: int = 0
    caller: str = ""
    notices: list[str] = field(default_factory=list)
    color: str | None = None
    models: list[str | None] = field(default_factory=list)
    effort: str | int | None = None

    @property
    def tools(self) -> set[str]:
        return {tool["name"] for tool in self.head.get("tools", ())}

    @property
    def system(self) -> str:
        return json.dumps(self.head.get("system", ""), ensure_ascii=False)

    @property
    def all_told(self) -> str:
        return "\n".join(self.told)


class Source:
    """Opens one scripted model under whatever name, and keeps the names."""

    def __init__(self, model: ScriptedModel, ran: Ran) -> None:
        self.model, self.ran = model, ran

    async def open(self, name, agent):
        self.ran.models.append(name)
        return self.model


async def run(root: Path, route: str, said: dict, *calls: tuple, call: dict | None = None, **options) -> Ran:
    """One agent of the type `kind` with these fields, that makes these calls."""
    if route == "process":
        return await run_away(root, said, calls, call or {}, options)
    ran, call = Ran(), call or {}
    definition = {"description": "For a test.", "prompt": "You are the kind.", **said}
    script = [*calls, "Done."]
    spawn = ("Agent", {"description": "do it", "prompt": "Do it now.", "subagent_type": "kind", **call})
    callers = {"team-lead": [spawn, "Done."]}
    if route != "sub-agent":
        spawn[1]["name"] = "ada"
    asked = options.pop("fork", {})
    if route == "fork":
        callers["ada"] = [("Agent", {**FORKED, **asked})]
        options["settings_file"] = settings = root / "given.json"
        settings.write_text('{"agents": {"fork": true}}')

    def answer(request):
        if (lines := callers.get(request.agent_name)) is not None:
            return lines.pop(0) if lines else "Done."
        ran.rounds += 1
        return script.pop(0) if script else "Done."

    model = ScriptedModel(answer, card=options.pop("card", None))
    mode = options.pop("permission_mode", "bypassPermissions")
    team = Team("crew", model=model, cwd=root, permission_mode=mode, agents={"kind": definition}, **options)
    async with asyncio.timeout(WAIT_S), team:
        session = team.session
        session.log.subscribe(
            lambda _n, event: ran.notices.append(event.text) if isinstance(event, Notice) else None, live=False
        )
        session.agent_factory.models = Source(model, ran)
        await team.run("Go.")
        ran.color = next((teammate.color for teammate in session.team.members.values()), None)
    own = [request for request in model.requests if request.agent_name not in callers]
    if own:
        ran.head, ran.effort = read_head(own[0].prefix), prefix_effort(own[0].prefix)
        ran.told = [text_of(item) for request in own for item in request.items]
    ran.caller = "\n".join(text_of(item) for r in model.requests if r.agent_name in callers for item in r.items)
    return ran


async def run_away(root: Path, said: dict, calls: tuple, call: dict, options: dict, backend: str = "detached") -> Ran:
    """The same with a service on loopback, which a member's own process reaches."""
    ran, script = Ran(), [*calls, "Done."]
    kind = {"description": "For a test.", "prompt": "You are the kind.", **said}
    given = {"description": "do it", "prompt": "Do it now.", "subagent_type": "kind", "name": "ada", **call}
    lead, bodies = [Answer(tools=[("Agent", given)])], {"ada": [], "lead": []}

    def answer(body):
        who = "ada" if "Do it now." in first_words(body) else "lead"
        bodies[who].append(body)
        left = lead if who == "lead" else script
        reply = left.pop(0) if left else "Done."
        return Answer(tools=[reply]) if isinstance(reply, tuple) else reply

    async with LoopbackModel(answer) as server:
        more = {
            "permission_mode": "bypassPermissions",
            **{k: v for k, v in options.items() if k not in {"card", "fork"}},
        }
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}
        team = Team("crew", model="sonnet", cwd=root, env=env, agents={"kind": kind}, backend=backend, **more)
        async with asyncio.timeout(WAIT_S), team:
            log = team.session.log
            log.subscribe(lambda _n, e: ran.notices.append(e.text) if isinstance(e, Notice) else None, live=False)
            await team.run("Go.")
            ran.color = next((teammate.color for teammate in team.session.team.members.values()), None)
    ran.rounds = len(bodies["ada"])
    ran.notices = [text for text in ran.notices if "what it writes is in" not in text]
    if bodies["ada"]:
        ran.head = {name: value for name, value in bodies["ada"][0].items() if name != "messages"}
        ran.told = [json.dumps(item, ensure_ascii=False) for body in bodies["ada"] for item in body["messages"]]
        wire = bodies["ada"][0]["model"]
        ran.models = [next((one for one in ("opus", "haiku") if one in wire), None)]
    ran.caller = "\n".join(json.dumps(item, ensure_ascii=False) for b in bodies["lead"] for item in b["messages"])
    return ran


def read_head(prefix) -> dict:
    """System prompt and tools of a prefix, from its bytes."""
    text = prefix.head.decode()
    found = {}
    for key in ("system", "tools"):
        at = text.find(f'"{key}":')
        found[key] = json.JSONDecoder().raw_decode(text[at + len(key) + 3 :].lstrip())[0]
    return found


def text_of(item: bytes) -> str:
    return json.dumps(json.loads(item), ensure_ascii=False)


SLOW_AWAY = [pytest.param(route, marks=pytest.mark.slow) if route == "process" else route for route in ROUTES]


def test_every_field_has_a_case_here():
    assert set(CASES) == set(FIELDS)


@pytest.mark.promise("row F8", "F42")
@pytest.mark.parametrize("route", SLOW_AWAY)
@pytest.mark.parametrize("name", list(FIELDS))
@pytest.mark.slow_after(2)
async def test_a_field_has_its_effect(tmp_path, name, route):
    await CASES[name](tmp_path, route)


async def names(root, route):
    assert (await run(root, route, {})).rounds >= 1


async def described(root, route):
    ran = await run(root, route, {"description": "Knows about whales."})
    assert ran.rounds >= 1


async def prompts(root, route):
    ran = await run(root, route, {"prompt": "You speak of whales."})
    assert "You speak of whales." in ran.system
    # a teammate is told it behind what every member knows, a sub-agent in place of that; a fork what its caller is
    assert ("# Your role: kind" in ran.system) is (route != "sub-agent")


async def tools(root, route):
    ran = await run(root, route, {"tools": ["Read", "Agent"]})
    assert "Read" in ran.tools
    assert not ran.tools & {"Bash", "Write", "Grep"}
    assert ({"SendMessage", "TaskUpdate"} <= ran.tools) is (route != "sub-agent")


async def without(root, route):
    push = ("Bash", {"command": "git push origin main"})
    ran = await run(root, route, {"disallowedTools": ["Write", "Bash(git push:*)"]}, push)
    assert "Write" not in ran.tools
    assert "Bash" in ran.tools
    assert "Bash(git push:*)" in ran.all_told


async def model(root, route):
    assert (await run(root, route, {"model": "opus"})).models[-1] == "opus"
    assert (await run(root, route, {"model": "inherit"})).models[-1] is None
    assert (await run(root, route, {"model": "opus"}, call={"model": "haiku"})).models[-1] == "haiku"
    assert (await run(root, route, {"model": "opus"}, call={"model": "inherit"})).models[-1] is None


async def mode(root, route):
    await run(root, route, {"permissionMode": "dontAsk"}, ("Write", {"file_path": "made", "content": "x"}))
    assert not (root / "made").exists()
    await run(root, route, {}, ("Write", {"file_path": "made", "content": "x"}))
    assert (root / "made").exists()


async def turns(root, route):
    look = ("Glob", {"pattern": "*"})
    ran = await run(root, route, {"maxTurns": 1}, look, look)
    assert ran.rounds == (3 if route == "fork" else 1)  # it counts its caller's; a fork has its call's own
    ran = await run(root, route, {"maxTurns": 1}, look, call={"max_turns": 9}, fork={"max_turns": 1})
    assert ran.rounds == 1


async def background(root, route):
    ran = await run(root, route, {"background": True})
    assert ran.rounds >= 1
    assert ("in the background" in ran.caller) is (route in {"sub-agent", "fork"})  # a fork always is


async def isolation(root, route):
    ran = await run(root, route, {"isolation": "worktree"})
    assert ran.rounds == 0
    assert "isolation" in ran.caller


async def color(root, route):
    ran = await run(root, route, {"color": "pink"})
    assert ran.rounds >= 1
    assert ran.color == (None if route == "sub-agent" else "pink")


async def required(root, route):
    ran = await run(root, route, {"requiredMcpServers": ["whales"]})
    assert ran.rounds == 0
    assert "MCP server" in ran.caller


async def servers(root, route):
    ran = await run(root, route, {"mcpServers": ["whales"]})
    assert any("mcpServers" in text or "whales" in text for text in [*ran.notices, ran.caller, ran.system])


async def effort(root, route):
    if route == "process":
        for said, call in (({"effort": "high"}, {}), ({"effort": "high"}, {"effort": "low"}), ({}, {})):
            away = await run_away(root, said, (), call, {})
            here = await run_away(root, said, (), call, {}, backend="in-process")
            assert away.rounds == here.rounds == 1
            assert {**away.head, "system": 0} == {**here.head, "system": 0}, "it is asked with the same effort"
        return
    card = ModelCard(
        "test/m", "m", "test", 200_000, 64_000, 0.0, 0.0, efforts=("low", "high", "max"), budget_from=1_024
    )
    for said, called, becomes in (
        ("high", None, "high"),
        ("high", "max", "max"),
        (None, "low", "low"),
        (4_096, None, 4_096),
        ("high", 2_000, 2_000),
        (None, None, None),
    ):
        kind, call = {"effort": said} if said else {}, {"effort": called} if called else {}
        ran = await run(root, route, kind, card=card, call=call)
        assert (ran.effort, ran.notices) == (becomes, [])
    ran = await run(root, route, {"effort": "xhigh"}, card=card)
    assert ran.effort is None
    what = "the effort xhigh of the agent type kind is not used by kind: test/m uses its default effort"
    assert ran.notices == [f"{what} (it takes low, high, max or a budget from 1,024 tokens on)"]
    ran = await run(root, route, {"effort": "high"}, call={"effort": "high"})
    assert ran.rounds == 0
    assert "the effort high cannot be asked of scripted" in ran.caller


async def hooks(root, route):
    mark = [{"matcher": "Glob", "hooks": [{"type": "command", "command": "touch seen-by-hook; exit 2"}]}]
    ran = await run(root, route, {"hooks": {"PreToolUse": mark}}, ("Glob", {"pattern": "*"}))
    assert (root / "seen-by-hook").exists()
    assert "A hook refused this call" in ran.all_told
    assert "A hook refused" not in ran.caller


async def memory(root, route):
    with_it, without = await run(root, route, {"memory": "user"}), await run(root, route, {})
    assert "# Your memory" in with_it.all_told and "# Your memory" not in without.all_told
    assert with_it.system == without.system


async def skills(root, route):
    ran = await run(root, route, {"skills": ["whales"]})
    assert any("whales" in text for text in [*ran.notices, ran.system])


async def initial(root, route):
    ran = await run(root, route, {"initialPrompt": "Greet first."})
    first = ran.told[0]
    assert first.index("Greet first.") < first.index("Do it now.")


async def sandbox(root, route):
    outside = root.parent / f"{root.name}-outside-{route}"
    hidden = base64.b64encode(bytes(outside)).decode()  # a path that the line names would be open
    write = ("Bash", {"command": f'echo x > "$(echo {hidden} | base64 -d)"'})
    await run(root, route, {"sandbox": {"mode": "required"}}, write, sandbox="off")
    assert not outside.exists()
    await run(root, route, {}, write, sandbox="off")
    assert outside.exists()


async def sized(root, route):
    ran = await run(root, route, {"promptSize": "compact"})
    assert "ToolSearch" in ran.tools and "Glob" not in ran.tools


CASES = {
    "name": names,
    "description": described,
    "prompt": prompts,
    "tools": tools,
    "disallowedTools": without,
    "model": model,
    "effort": effort,
    "promptSize": sized,
    "permissionMode": mode,
    "background": background,
    "isolation": isolation,
    "maxTurns": turns,
    "color": color,
    "memory": memory,
    "requiredMcpServers": required,
    "mcpServers": servers,
    "hooks": hooks,
    "skills": skills,
    "initialPrompt": initial,
    "sandbox": sandbox,
}


@pytest.mark.promise("F43")
async def test_a_model_that_a_definition_names_and_nobody_has_is_told_with_the_definition(tmp_path):
    team = Team(
        "crew",
        model="ollama/none",
        cwd=tmp_path,
        env={},
        agents={"kind": {"description": "d", "prompt": "p", "model": "sonnet"}},
    )
    async with team:
        with pytest.raises(CannotStart) as refused:
            await team.spawn("ada", "Go.", agent_type="kind")
    assert ("asked by", "the agent type kind") in refused.value.looked_at


@pytest.mark.promise("F46")
async def test_what_a_teammate_was_denied_its_sub_agents_do_not_have(tmp_path):
    inner = ("Agent", {"description": "do it", "prompt": "Do it.", "subagent_type": "general-purpose"})
    heads: list[set[str]] = []

    def answer(request):
        found = {tool["name"] for tool in read_head(request.prefix)["tools"]}
        if request.agent_name == "team-lead":
            return "Done."
        heads.append(found)
        return inner if len(heads) == 1 else "Done."

    kinds = {"kind": {"description": "d", "prompt": "p", "disallowedTools": ["Bash"]}}
    async with asyncio.timeout(WAIT_S), Team("crew", model=ScriptedModel(answer), cwd=tmp_path, agents=kinds) as team:
        await team.spawn("ada", "Go.", agent_type="kind")
        await team.run("Wait.")
    assert len(heads) >= 2
    assert not any("Bash" in found for found in heads)


@pytest.mark.slow
async def test_a_definition_that_asks_for_bypass_is_never_above_its_caller(tmp_path):
    write = ("Write", {"file_path": "made", "content": "x"})
    for route in ROUTES:
        await run(tmp_path, route, {"permissionMode": "bypassPermissions"}, write, permission_mode="default")
        assert not (tmp_path / "made").exists()


async def test_an_unknown_field_or_a_wrong_value_of_a_program_is_an_error_before_anything_starts(tmp_path):
    for said in ({"tols": ["Read"]}, {"maxTurns": 0}, {"color": "mauve"}, {"permissionMode": "whatever"}):
        with pytest.raises(UsageError, match=next(iter(said))):
            async with Team("crew", model=ScriptedModel("x"), cwd=tmp_path, agents={"kind": said}):
                pass
