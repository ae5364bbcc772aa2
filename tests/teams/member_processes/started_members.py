"""Parts for tests of members' processes: what a place starts may be changed, and whoever lives is counted by a mark."""

import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.teams.backend import Launch
from tests.support.leftovers import await_end
from tests.support.waits import WAIT_S

MARK = "HOUSE_MARK"


class Marked:
    """All processes that came out of one test: they have its mark in their environment.

    With another variable than MARK a program that the test starts is forked from the loaded process, and is not found.
    """

    def __init__(self, variable: str = MARK) -> None:
        self.variable, self.mark = variable, uuid.uuid4().hex
        self.env = {variable: self.mark}

    def pids(self, *words: str) -> list[int]:
        """Those that run now; with words only those whose command line has them all."""
        mark = f"{self.variable}={self.mark}".encode()
        ours = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and mark in _environ(p)]
        return sorted(pid for pid in ours if (line := _line(pid)) and all(word in line for word in words))

    def member(self, name: str) -> int:
        """The one process of the member."""
        [pid] = self.members(name)
        return pid

    def members(self, name: str = "") -> list[int]:
        """Processes of members, or those of one of them.

        A child that a member has forked has its command line until it runs its own program. It is not a member.
        """
        found = [pid for pid in self.pids("--agent-id") if f"--agent-id\0{name}" in _line(pid)]
        return [pid for pid in found if _parent(pid) not in found]

    def gone(self, *, within_s: float = WAIT_S) -> None:
        """Wait until none runs any more."""
        deadline = time.monotonic() + within_s
        while pids := self.pids():
            left = deadline - time.monotonic()
            assert left > 0, f"they still run: {[(pid, _line(pid)) for pid in pids]}"
            await_end(pids[0], left)

    def end_all(self) -> None:
        """Whoever is left after a test that failed."""
        for pid in self.pids():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _environ(process: Path) -> list[bytes]:
    with suppress(OSError):
        return (process / "environ").read_bytes().split(b"\0")
    return []


def _parent(pid: int) -> int:
    """The process that started it; 0 when it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    return ""


@contextmanager
def nobody_left() -> Generator[Marked]:
    """After the block no process of the test runs, and none waits to be buried by us."""
    marked = Marked()
    try:
        yield marked
        marked.gone(within_s=WAIT_S)
        assert not zombies(), f"nobody reaped {zombies()}"
    finally:
        marked.end_all()


def zombies() -> list[int]:
    """Children of this process that have ended, and whom nobody has reaped."""
    children = [pid for file in Path("/proc/self/task").glob("*/children") for pid in _words(file)]
    return [int(pid) for pid in children if _state(pid) == "Z"]


def _words(file: Path) -> list[str]:
    with suppress(OSError):  # a thread that has just ended
        return file.read_text().split()
    return []


def _state(pid: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


@dataclass
class Tampered:
    """A housing whose launches are changed for those whom `changes` names (in place of the session's own)."""

    housing: Any
    changes: dict[str, Callable[[Launch], Launch]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.housing, name)

    def build_launch(self, member: Any, life: Any, token: str, *, resumed: bool) -> Launch:
        made = self.housing.build_launch(member, life, token, resumed=resumed)
        change = self.changes.get(member.name)
        return made if change is None else change(made)


def runs(*argv: str) -> Callable[[Launch], Launch]:
    """Another program is started in its place."""
    return lambda launch: replace(launch, argv=argv)


def without(*names: str) -> Callable[[Launch], Launch]:
    """These variables are not handed over."""
    return lambda launch: replace(launch, env={k: v for k, v in launch.env.items() if k not in names})


def told(**facts: Any) -> Callable[[Launch], Launch]:
    """The spawn file says something else."""

    def change(launch: Launch) -> Launch:
        path = Path(launch.env["TEAMWRIGHT_SPAWN_FILE"])
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))
        return launch

    return change
