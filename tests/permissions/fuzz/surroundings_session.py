"""A case in a forked process: a real session with the scripted calls, then commands of a person in the same directory.

Writes a JSON line after each step: what was done, how it ended, what it left. Depends on the product and the world.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import teamwright
import teamwright.__main__ as program
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import RequestOpened, ToolCalled
from teamwright.protocol.messages import text_block
from teamwright.sandbox.known_paths import CACHES
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.trust_question import give_trust, trust_survey
from teamwright.team_records.snapshots import resolve_home
from teamwright.testing.scripted_model import ScriptedModel
from teamwright.views.permission_check import CallerDescription, check_call
from tests.permissions.fuzz.snapshot import Snapshot
from tests.permissions.fuzz.surroundings import MEMBER, Case
from tests.permissions.fuzz.surroundings_world import SurroundedWorld, mark_text

START, END = "session start", "session end"
ASKED, DENIED, RAN = "asked", "denied", "ran"
LIMIT_S = 3.0
"""The timeout of a line."""
_MOVES = re.compile(r"\b(cd|pushd|popd|eval|exec|source|CDPATH)\b|\$|`|\\")
"""What may change the directory of later lines, for which `permissions check` is not told another directory."""
_MEMBER_SCRIPT = """
[script]
name = "member"
[[agent.lead.turn]]
[[agent.lead.turn.call]]
tool = "Agent"
input = { name = "ann", description = "says one", prompt = "say one" }
[[agent.lead.turn]]
say = "started"
[[agent."*".otherwise]]
say = "one"
"""


@dataclass(slots=True)
class Step:
    """One call, act or part of the session; `marks`: what programs of the project wrote, `changes`: changed paths."""

    what: str
    outcome: str = ""
    marks: list[str] = field(default_factory=list)
    changes: dict[str, str] = field(default_factory=dict)
    check: str = ""
    """What `permissions check` said differently from the run."""
    seconds: float = 0.0


def load_program() -> None:
    """Import every module of the program, so that a forked process has it, and import nothing from a project."""
    for module in pkgutil.walk_packages(teamwright.__path__, "teamwright."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def play_case(case: Case, world: SurroundedWorld, snapshot: Snapshot, output: int) -> None:
    """Play the case in this process, which is of its own, and write the steps. Never returns."""
    os.environ.clear()
    os.environ.update(world.variables)
    os.chdir(world.project)
    tempfile.tempdir = None
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(world.base / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, descriptor in enumerate((nothing, log, log)):
        os.dup2(descriptor, number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, how) for number, how in enumerate("rww"))
    player = _Player(case, world, snapshot, output)
    try:
        player.play()
    except BaseException:
        import traceback

        traceback.print_exc()
        player.tell("failure", traceback.format_exc()[-1500:])
    finally:
        sys.stderr.flush()
        os._exit(0)


class _Player:
    def __init__(self, case: Case, world: SurroundedWorld, snapshot: Snapshot, output: int) -> None:
        self._case, self._world, self._snapshot, self._output = case, world, snapshot, output
        self._read = 0
        self._calls = iter(case.calls)
        self._current = ""
        self._check = ""
        self._outcome = ""
        self._has_moved = False
        self._began = time.monotonic()

    def play(self) -> None:
        if self._case.trusted:
            options = Options(cwd=self._world.project)
            give_trust(options, trust_survey(options))
            self.tell("trust")
        self._world.change_after_trust()
        self._snapshot.remember()
        if self._case.calls or not self._case.acts:
            asyncio.run(self._session())
        for act in self._case.acts:
            if act == MEMBER:
                asyncio.run(self._start_member())
            else:
                self._run_command(act)
            self.tell(act)

    async def _session(self) -> None:
        options = Options(
            cwd=self._world.project,
            model=ScriptedModel(self._answer),
            permission_mode=self._case.mode,
            sandbox=self._case.sandbox,
            on_request=self._deny,
            ask_timeout_s=20.0,
        )
        async with open_session(options) as session:
            session.log.subscribe(lambda _number, event: self._note(event))
            await asyncio.sleep(0)
            self.tell(START)
            await session.run([text_block("go")])
        self.tell(END)

    async def _start_member(self) -> None:
        script = self._world.state / "member.toml"
        script.write_text(_MEMBER_SCRIPT)
        options = Options(
            cwd=self._world.project, model=f"scripted:{script}", backend="detached", sandbox=self._case.sandbox
        )
        async with open_session(options) as session:
            await session.end_members(await session.run([text_block("go")]))

    def _deny(self, event: RequestOpened) -> Any:
        self._outcome = ASKED
        return event.deny("no")

    def _note(self, event: Any) -> None:
        if isinstance(event, ToolCalled) and not self._outcome:
            self._outcome = DENIED if event.outcome == "denied" else RAN

    def _answer(self, _request: object) -> Any:
        """Tell what the call before came to, and return the next one."""
        if self._current:
            self.tell(self._current, self._outcome, check=self._differs())
        self._current = next(self._calls, "")
        if not self._current:
            return "END"
        self._outcome = ""
        self._check = self._verdict()
        return self._tool_call(self._current)

    def _verdict(self) -> str:
        """Return what `permissions check` says of the call; empty where it is not asked."""
        line = self._current
        self._has_moved = self._has_moved or _MOVES.search(line) is not None
        if not line.startswith("Bash(") or self._has_moved or self._case.sandbox != "off" or len(line) % 3:
            return ""
        with contextlib.suppress(TeamwrightError):
            caller = CallerDescription(resolve_home(None), self._world.project, self._case.mode)
            found = check_call(line, caller)
            return f"{found.verdict} ({found.rule}: {found.reason})"
        return ""

    def _differs(self) -> str:
        ran = self._outcome == RAN
        if not self._check or not self._outcome or ran == self._check.startswith("allow "):
            return ""
        return f"permissions check says {self._check}; the run: {self._outcome}"

    def _tool_call(self, call: str) -> Any:
        tool, _, rest = call.partition("(")
        text = rest.removesuffix(")").replace("{home}", str(self._world.home))
        path = str(self._world.project / text)
        match tool:
            case "Bash":
                return "Bash", {"command": text, "timeout": int(LIMIT_S * 1000)}
            case "Write":
                return "Write", {"file_path": path, "content": mark_text(Path(path).name, self._world.marks)}
            case "Edit":
                first = _first_line(path)
                return "Edit", {"file_path": path, "old_string": first, "new_string": f"{first}\n. ./mark.sh"}
            case "Read":
                return "Read", {"file_path": path}
            case "Grep":
                return "Grep", {"pattern": text}
            case "Glob":
                return "Glob", {"pattern": text}
            case _:
                return "Skill", {"skill": text}

    def _run_command(self, act: str) -> None:
        """Run `teamwright ACT` in a process of its own."""
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            sys.argv = [program.__file__, *act.split()]
            with contextlib.suppress(BaseException):
                program.main()
            os._exit(0)
        os.waitpid(child, 0)

    def tell(self, what: str, outcome: str = "", check: str = "") -> None:
        """Write a step with the marks and changes since the last one."""
        now = time.monotonic()
        step = Step(what, outcome, list(self._marks()), self._changes(), check, now - self._began)
        self._began = now
        os.write(self._output, json.dumps(asdict(step)).encode() + b"\n")

    def _marks(self) -> Iterator[str]:
        with open(self._world.marks, "rb") as file:
            file.seek(self._read)
            text = file.read()
        self._read += len(text)
        yield from (line[:300] for line in text.decode(errors="replace").splitlines())

    def _changes(self) -> dict[str, str]:
        """Return the changes that the mode does not allow. Those inside the project are kept in `acceptEdits`."""
        if not self._snapshot.entries:
            return {}
        found = self._snapshot.changes()
        if found:
            self._snapshot.remember()
        if self._case.mode == "acceptEdits" or self._case.sandbox != "off":
            project, git = f"{self._world.project}/", f"{self._world.project}/.git/"
            found = {path: what for path, what in found.items() if not path.startswith(project) or path.startswith(git)}
        if self._case.trusted:  # Python code that the person trusted is compiled
            found = {path: what for path, what in found.items() if "/__pycache__" not in path}
        if self._case.sandbox != "off" or self._case.trusted:  # commands that are confined or trusted may use caches
            caches = [f"{self._world.home}/{name}/" for name in (*CACHES, ".cache")]
            found = {
                path: what
                for path, what in found.items()
                if not any(f"{path}/".startswith(cache) or cache.startswith(f"{path}/") for cache in caches)
            }
        # Git sets the time of a pack that contains an object which it would write again.
        found = {path: what for path, what in found.items() if not path.endswith(".pack") or "made" in what[:4]}
        return {os.path.relpath(path, self._world.base): what[:160] for path, what in found.items()}


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").partition("\n")[0]
    except OSError:
        return "one"
