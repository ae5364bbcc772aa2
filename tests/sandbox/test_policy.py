"""The settings of an agent's sandbox are never wider than those of the agent that started it."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright import Team
from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.command_policy import REPLACED, ConfinementRequest, SandboxPaths
from teamwright.sandbox.policy import (
    UNBOUNDED,
    NetworkAccess,
    PolicyName,
    SandboxMode,
    SandboxPolicy,
    SandboxSettings,
    is_inside,
    narrow,
    parse_bounds,
    usual_memory_mb,
)
from teamwright.sandbox.sandbox import Implementation, Sandbox
from teamwright.testing import Call, LoopbackModel, ScriptedModel
from teamwright.testing.model_server_replies import Answer
from tests.support.programs import needs
from tests.support.repositories import git

SERVER = Path(__file__).parent / "writing_server.py"
ROOT = Path(__file__).resolve().parent.parent
TREES = [str(ROOT / name) for name in ("ui", "ui/terminal", "storage", "storage/short_sockets", "tools")]
PATHS = st.lists(st.sampled_from(["/", *TREES]), max_size=3).map(tuple)
SETTINGS = st.one_of(
    st.just(UNBOUNDED),
    st.builds(
        SandboxSettings,
        st.sampled_from(SandboxMode),
        st.sampled_from(NetworkAccess),
        PATHS,
        PATHS,
        st.booleans(),
        st.sampled_from([0, 100, 10**9]),
        st.sampled_from([0, 10, 4_096]),
        st.booleans(),
    ),
)
PLACE = SandboxPaths(str(ROOT / "home"), (), (), "", {})


def inside(path: str, directories) -> bool:
    return any(is_inside(path, directory) for directory in directories)


@given(SETTINGS, SETTINGS, st.sampled_from([PolicyName.READ, PolicyName.WORK]))
def test_a_child_is_never_wider_than_its_parent(settings, bounds, name):
    parent = Sandbox(settings, PLACE)
    child = parent.narrowed(bounds)
    assert child.answers() <= parent.answers()
    modes, networks = list(SandboxMode), list(NetworkAccess)
    assert modes.index(child.settings.mode) >= modes.index(settings.mode)
    assert child.settings.auto_allow <= settings.auto_allow
    request = ConfinementRequest(name, (ROOT / "work",))
    mine, theirs = child.policy(request), parent.policy(request)
    for path in TREES:
        assert not inside(path, mine.writable) or inside(path, theirs.writable)
        assert not inside(path, mine.readable) or inside(path, theirs.readable)
    assert mine.hidden >= {path for path in theirs.hidden if not path.startswith(REPLACED)}
    assert networks.index(mine.network) <= networks.index(theirs.network)
    usual = usual_memory_mb()
    assert (mine.memory_mb or usual) <= (theirs.memory_mb or usual)
    assert theirs.processes == 0 or 0 < mine.processes <= theirs.processes


@given(SETTINGS, SETTINGS)
def test_bounds_that_apply_twice_change_nothing_more(settings, bounds):
    once = narrow(settings, bounds)
    assert narrow(once, once) == narrow(narrow(once, once), bounds)
    assert narrow(settings, UNBOUNDED) == settings


@pytest.mark.parametrize(
    "wrong",
    [
        "deny",
        {"netwrk": "deny"},
        {"network": "none"},
        {"write": ["src"]},
        {"processes": -1},
        {"mode": 1},
        {"answers": True},
        {"opens": ["/"]},
    ],
)
def test_bounds_with_a_mistake_are_an_error(wrong):
    with pytest.raises(ValueError, match="an object with some of mode, network, read, write"):
        parse_bounds(wrong)


BOUND = "{{network: deny, write: [{0}/shared]}}"
AGENT = "---\nname: careful\ndescription: It is careful.\nsandbox: {}\n---\nBe careful.\n"
TABLE = 'sandbox = {{ network = "deny", write = ["{0}/shared"] }}\n'


class Crew:
    """A lead that may write in two directories, and agents that it starts; each writes a file of its name in both."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("shared", "other", "work/.teamwright", "state/agents"):
            (directory / name).mkdir(parents=True)
        self.save("state/settings.json", json.dumps({"sandbox": {"write": [str(self.shared), str(self.other)]}}))

    @property
    def shared(self) -> Path:
        return self.directory / "shared"

    @property
    def other(self) -> Path:
        return self.directory / "other"

    def save(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def writes(self, who: str) -> Answer:
        return Answer(tools=[("Bash", {"command": f"touch {self.shared}/{who}; touch {self.other}/{who}; true"})])

    async def run(self, agent: dict[str, str], **more) -> None:
        """Run the lead, which starts an agent with these arguments, which starts a sub-agent."""
        started = {
            "LEAD": ("Agent", {"prompt": "MATE", "description": "write", **agent}),
            "MATE": ("Agent", {"prompt": "CHILD", "description": "write", "subagent_type": "general-purpose"}),
        }

        async def play(body: dict) -> Answer | str:
            first, step = json.dumps(body["messages"][0]), len(body["messages"])
            who = next(name for name in ("LEAD", "MATE", "CHILD") if name in first)
            if step == 1:
                return self.writes(who)
            return Answer(tools=[started[who]]) if step == 3 and who in started else "Done."

        async with LoopbackModel(play) as server:
            env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-none"}
            place = {"cwd": self.directory / "work", "home": self.directory / "state", "env": env, "sandbox": "auto"}
            async with Team("crew", permission_mode="bypassPermissions", **place | more) as team:
                await team.run("LEAD")

    def wrote(self, directory: Path) -> set[str]:
        return {path.name for path in directory.iterdir()}


EVERYONE = {"LEAD", "MATE", "CHILD"}


@needs("bwrap")
@pytest.mark.parametrize("backend", ["in-process", pytest.param("detached", marks=pytest.mark.slow)])
@pytest.mark.parametrize("by", ["its agent type", "a role with its name"])
@pytest.mark.slow_after(1)
async def test_the_bounds_of_a_teammate_hold_for_its_sub_agents_too(tmp_path, backend, by):
    crew = Crew(tmp_path)
    if by == "its agent type":
        crew.save("state/agents/careful.md", AGENT.format(BOUND.format(tmp_path)))
        agent = {"name": "ann", "subagent_type": "careful"}
    else:
        crew.save("work/.teamwright/team.toml", "[roles.ann]\n" + TABLE.format(tmp_path))
        agent = {"name": "ann"}
    await crew.run(agent, backend=backend)
    assert crew.wrote(crew.shared) == EVERYONE
    assert crew.wrote(crew.other) == {"LEAD"}


@needs("bwrap")
async def test_the_check_of_a_task_is_no_wider_than_the_agent_that_completes_it(tmp_path):
    crew = Crew(tmp_path)
    crew.save("state/agents/careful.md", AGENT.format(BOUND.format(tmp_path)))
    check = f"touch {crew.shared}/checked; touch {crew.other}/checked"
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"}
    model = ScriptedModel({"ann": [Call("TaskUpdate", {"taskId": "1", "status": "completed"}), "It failed."]})
    async with Team("crew", model=model, permission_mode="bypassPermissions", **options) as team:
        await team.tasks.add("make it", check=check)
        ann = await team.spawn("ann", "Complete the task.", agent_type="careful")
        await ann.wait_idle()
        assert (await team.tasks.get("1")).status != "completed"
        assert (crew.wrote(crew.shared), crew.wrote(crew.other)) == ({"checked"}, set())
        await team.tasks.update("1", status="completed")
    assert crew.wrote(crew.other) == {"checked"}, "the program has no such bounds"


@needs("bwrap")
async def test_the_setup_of_a_worktree_is_no_wider_than_the_agent_that_works_there(tmp_path):
    crew = Crew(tmp_path)
    crew.save("state/agents/careful.md", AGENT.format(BOUND.format(tmp_path)))
    settings = json.loads((tmp_path / "state/settings.json").read_text())
    name = "${TEAMWRIGHT_WORKTREE##*/}"
    setup = f"touch {crew.shared}/{name}; touch {crew.other}/{name}; true"
    crew.save("state/settings.json", json.dumps({**settings, "worktrees": {"setup": setup}}))
    git(tmp_path / "work", "init", "--quiet")
    git(tmp_path / "work", "commit", "--quiet", "--allow-empty", "-m", "first")
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"}
    async with Team("crew", model=ScriptedModel("Done."), permission_mode="bypassPermissions", **options) as team:
        await team.spawn("ann", "Rest.", agent_type="careful", isolation="worktree")
        await team.spawn("bob", "Rest.", isolation="worktree")
    assert crew.wrote(crew.shared) == {"crew-ann", "crew-bob"}
    assert crew.wrote(crew.other) == {"crew-bob"}


@needs("bwrap")
@pytest.mark.parametrize("place", ["its definition", "the agent above"])
@pytest.mark.slow_after(1)
async def test_the_mcp_servers_of_an_agent_type_are_no_wider_than_its_agents(tmp_path, place):
    crew = Crew(tmp_path)
    server = {"command": "python3", "args": [str(SERVER), str(crew.shared / "server"), str(crew.other / "server")]}
    own = f"{AGENT.format(BOUND.format(tmp_path))}".replace(
        "name: ", "mcpServers: " + json.dumps({"x": server}) + "\nname: "
    )
    if place == "the agent above":
        own = own.replace(f"sandbox: {BOUND.format(tmp_path)}\n", "")
        crew.save("state/agents/above.md", AGENT.format(BOUND.format(tmp_path)).replace("careful", "above"))
    crew.save("state/agents/careful.md", own)
    begins = {"LEAD": "above" if place == "the agent above" else "careful", "ABOVE": "careful"}

    async def play(body: dict) -> Answer | str:
        first, step = json.dumps(body["messages"][0]), len(body["messages"])
        who = next(name for name in ("LEAD", "ABOVE", "CAREFUL") if name in first)
        if who == "CAREFUL":
            return Answer(tools=[("mcp__x__write", {})]) if step == 1 else "Done."
        kind = begins[who]
        agent = {"prompt": kind.upper(), "description": "write", "subagent_type": kind}
        agent |= {"name": "ann"} if kind == "above" else {}
        return Answer(tools=[("Agent", agent)]) if step == 1 else "Done."

    async with LoopbackModel(play) as model:
        env = {**os.environ, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-none"}
        options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "env": env, "sandbox": "auto"}
        async with Team("crew", permission_mode="bypassPermissions", **options) as team:
            await team.run("LEAD")
    assert (crew.wrote(crew.shared), crew.wrote(crew.other)) == ({"server"}, set())


@needs("bwrap")
@pytest.mark.parametrize("backend", ["in-process", pytest.param("detached", marks=pytest.mark.slow)])
async def test_an_untrusted_team_file_narrows_the_sandbox_of_the_whole_team(tmp_path, backend):
    crew = Crew(tmp_path)
    crew.save("work/.teamwright/team.toml", "[team]\n" + TABLE.format(tmp_path))
    await crew.run({"name": "ann"}, backend=backend)
    assert crew.wrote(crew.shared) == EVERYONE
    assert crew.wrote(crew.other) == set()


@pytest.mark.slow
@needs("bwrap")
async def test_a_member_process_is_not_wider_than_its_lead_when_the_settings_become_wider(tmp_path):
    crew = Crew(tmp_path)
    crew.save("state/settings.json", json.dumps({"sandbox": {"write": [str(crew.shared)]}}))
    writes = crew.writes

    def and_widens(who: str) -> Answer:
        crew.save("state/settings.json", json.dumps({"sandbox": {"write": [str(crew.shared), str(crew.other)]}}))
        return writes(who)

    crew.writes = and_widens
    await crew.run({"name": "ann"}, backend="detached")
    assert crew.wrote(crew.shared) == EVERYONE
    assert crew.wrote(crew.other) == set()


async def test_an_agent_that_requires_a_sandbox_runs_no_command_without_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: Implementation("none", reason="it is not there"))
    crew = Crew(tmp_path)
    crew.save("state/agents/careful.md", AGENT.format("{mode: required}"))
    await crew.run({"subagent_type": "careful"})
    assert crew.wrote(crew.shared) == {"LEAD"}


def test_what_contains_a_path_most_closely_decides_whether_a_command_reads_or_changes_it():
    """A worktree is inside the hidden state, and a file that rules deny is inside the worktree.

    A question names them as the kernel treats them.
    """
    policy = SandboxPolicy(
        PolicyName.WORK,
        writable=frozenset({"/state/worktrees/ann", "/shop"}),
        protected=frozenset({"/state/worktrees/ann/.claude"}),
        hidden=frozenset({"/state", "/state/worktrees/ann/.env", "/shop/keys"}),
        visible=frozenset({"/shop/keys/a.pub"}),
    )
    changed = ("/state/worktrees/ann/a.txt", "/shop/a.txt")
    kept = ("/state/worktrees/ann/.env", "/state/worktrees/ann/.claude/a", "/state/b", "/shop/keys/a.pub", "/etc/a")
    assert all(map(policy.may_change, changed)) and not any(map(policy.may_change, kept))
    assert all(map(policy.may_read, (*changed, "/state/worktrees/ann/.claude/a", "/shop/keys/a.pub", "/etc/a")))
    assert not any(map(policy.may_read, ("/state/worktrees/ann/.env", "/state/worktrees/bob/a", "/shop/keys/a")))
