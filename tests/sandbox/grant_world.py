"""A project with directories beside it, and a team in which one agent runs a command that changes a file there."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright import RequestOpened, Team
from teamwright.session.control.person_actions import allow_directory
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support import preloaded
from tests.support.waits import WAIT_S

KINDS = ("lead", "background", "sub-agent", "member", "member process")
"""The agents that run the command. `background`: the lead does, as a background command."""

COPY = """import pathlib, sys
for name in sys.argv[1:]:
    pathlib.Path(name).write_text("allowed")
for name in pathlib.Path(__file__).with_suffix(".txt").read_text().split():
    try:
        pathlib.Path(name).write_text("more")
    except OSError:
        print("refused")
"""
"""A program that writes the files in its words, and others that no word of its line names."""

TASK = "WORKER-TASK"


class World:
    """The directories: `out` is what a person allows, `other` is never named."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(os.path.realpath(directory))
        self.work, self.out, self.other, self.state = (self.directory / name for name in ("work", "out", "other", "st"))
        for place in (self.work, self.out, self.other, self.state):
            place.mkdir()
        for name, unnamed in (("copy", self.other / "x"), ("again", self.out / "again")):
            (self.work / f"{name}.py").write_text(COPY)
            (self.work / f"{name}.txt").write_text(f"{unnamed}\n")
        (self.work / "a.txt").write_text("allowed")

    @property
    def copy(self) -> str:
        """A program whose effects nobody knows."""
        return f"python3 copy.py {self.out}/c.txt"

    def settings(self, **settings: Any) -> None:
        (self.state / "settings.json").write_text(json.dumps(settings))

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class Way(Struct):
    """A way to allow the command. `answers` answers each question; none is expected without it.

    `prepare` runs in the open session. `gives_directory`: later commands may write there too. `before` are calls
    before the command.
    """

    options: dict[str, Any] = field(default_factory=dict)
    answers: Callable[[RequestOpened], Awaitable[None]] | None = None
    command: str = ""
    gives_directory: bool = False
    prepare: Callable[[Team], Awaitable[None]] | None = None
    before: tuple[tuple[str, dict[str, Any]], ...] = ()


async def _yes(request: RequestOpened) -> None:
    await request.allow()


async def _always(request: RequestOpened) -> None:
    assert request.always, request
    await request.allow(always=True)


async def _directory(request: RequestOpened) -> None:
    [update] = [one for one in request.suggestions if one["type"] == "addDirectories"]
    await request.allow(updates=[update])


def _by_command(world: World) -> Callable[[RequestOpened], Awaitable[None]]:
    async def answer(request: RequestOpened) -> None:
        words = ["-m", "teamwright", "--home", str(world.state), "requests", "allow", request.request, "--grant", "d"]
        env = {name: value for name, value in os.environ.items() if name != "TEAMWRIGHT"}
        done = await asyncio.to_thread(preloaded.run, [sys.executable, *words], timeout=WAIT_S, env=env)
        assert done.returncode == 0, done

    return answer


def _answer_of(rule: str) -> Callable[[RequestOpened], Awaitable[None]]:
    async def answer(request: RequestOpened) -> None:
        update = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
        await request.allow(updates=[update])

    return answer


def make_way(name: str, world: World) -> Way:
    """Return the way of this name."""
    cp, out = f"cp a.txt {world.out}/c.txt", world.out
    rule = ["Bash(python3 copy.py *)"]
    match name:
        case "y":
            return Way(answers=_yes)
        case "a":
            return Way(answers=_always)
        case "d":
            return Way(answers=_directory, command=cp, gives_directory=True)
        case "requests allow":
            return Way(answers=_by_command(world), command=cp, gives_directory=True)
        case "--allowed-tools":
            return Way({"allowed_tools": ["Bash"]})
        case "bypassPermissions":
            return Way({"permission_mode": "bypassPermissions"})
        case "--add-dir":
            return Way({"add_dirs": [out], "allowed_tools": rule}, gives_directory=True)
        case "/add-dir":

            async def add(team: Team) -> None:
                await allow_directory(team.session, out)

            return Way({"allowed_tools": rule}, gives_directory=True, prepare=add)
        case "a settings rule":
            world.settings(permissions={"allow": [f"Bash({world.copy})"]})
            return Way()
        case "a hook":
            allowed = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
            hook = {"type": "command", "command": f"echo '{json.dumps(allowed)}'"}
            world.settings(hooks={"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]})
            return Way()
        case "a plan":
            plan = {"plan": "# Plan\n1. Copy.", "allowedPrompts": [{"tool": "Bash", "prompt": world.copy}]}
            again = {"tool": "Bash", "prompt": "python3 again.py"}
            plan["allowedPrompts"].append(again)
            return Way({"permission_mode": "plan"}, answers=_yes, before=(("ExitPlanMode", plan),))
        case "the API":
            return Way(answers=_answer_of(f"Bash({world.copy})"))
        case _:
            raise AssertionError(name)


WAYS = (
    *("y", "a", "d", "requests allow", "--allowed-tools", "bypassPermissions", "--add-dir", "/add-dir"),
    *("a settings rule", "a hook", "a plan", "the API"),
)
OF_LEAD = frozenset({"a plan"})
"""Ways that allow a call to the agent alone that asked, here the lead."""


async def run(world: World, way: Way, kind: str, **options: Any) -> None:
    """Let an agent of this kind run the command of the way, then another one that names nothing."""
    given = {"permission_mode": "default", "backend": "detached" if kind == "member process" else "in-process"}
    given |= way.options | options
    given["allowed_tools"] = [*given.get("allowed_tools", ()), "Bash(python3 again.py)"]
    background = {"run_in_background": True} if kind == "background" else {}
    calls = [
        *way.before,
        ("Bash", {"command": way.command or world.copy} | background),
        ("Bash", {"command": "python3 again.py"}),
    ]
    start: dict[str, Any] = {"prompt": TASK, "description": "copy"}
    start |= {"name": "ann"} if kind.startswith("member") else {"subagent_type": "general-purpose"}

    async def play(body: dict[str, Any]) -> Answer | str:
        mine = TASK in json.dumps(body["messages"][0])
        step = sum(TASK not in json.dumps(one) or at == 0 for at, one in enumerate(body["messages"])) // 2
        todo = calls if mine or kind in {"lead", "background"} else [("Agent", start)]
        return Answer(tools=[todo[step]]) if step < len(todo) else "Done."

    asked: list[str] = []

    async def on_request(request: RequestOpened) -> None:
        asked.append(request.what)
        assert way.answers is not None, request
        await way.answers(request)

    async with LoopbackModel(play) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-none"}
        place = {"cwd": world.work, "home": world.state, "env": env, "on_request": on_request}
        async with asyncio.timeout(3 * WAIT_S), Team("crew", **place, **given) as team:
            if way.prepare is not None:
                await way.prepare(team)
            await team.run("LEAD")
            for job in team.session.jobs.list():
                assert await team.session.jobs.wait(job.id, WAIT_S)
    assert bool(asked) == (way.answers is not None), asked
