"""Workers of the tests: machines with separate homes, start orders, and a lead whose member remembers a word."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from teamwright.database.worker_orders import StartOrder, WorkerOffer
from teamwright.session.options import Options
from teamwright.team_records.spawn_spec import SpawnSpec
from tests.support import preloaded
from tests.support.waits import WAIT_S, wait_until

SCRIPT = r"""
[script]
name = "machines"

[[agent.lead.turn]]
say = "Ada counts elsewhere."
[[agent.lead.turn.call]]
tool = "TaskCreate"
input = { subject = "Count the files", description = "All that git knows.", ready = true }
[[agent.lead.turn.call]]
tool = "Agent"
input = { name = "ada", description = "count", prompt = "Take what is free.", isolation = "remote" }

[[agent.lead.turn]]
when.from = "ada"
when.text = '(?P<files>\d+) files'
capture_text = ['(?P<files>\d+) files']
say = "There are {{files}}."

[[agent.ada.turn]]
when.task = "Count the files"
[[agent.ada.turn.call]]
tool = "Bash"
input = { command = "git ls-files | wc -l; echo counted > counted.txt", description = "count the files" }
capture = '(?P<files>\d+)'

[[agent.ada.turn]]
when.have = ["files"]
say = "Counted."
[[agent.ada.turn.call]]
tool = "SendMessage"
input = { to = "lead", message = "{{files}} files.", summary = "counted" }
[[agent.ada.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", status = "completed" }

[[agent."*".otherwise]]
say = "Nothing more from me."
"""

QUINCE = SpawnSpec(prompt="Remember the word quince.", name="ada", isolation="remote")
"""A member on another machine."""

OFFER = WorkerOffer("gpu1", "host", "1.0", ("gpu",), 2, ("A_KEY",), ("https://example.org/app.git",))


class Machine:
    """A worker with a separate home, as on another machine."""

    def __init__(self, directory: Path, url: str, name: str, *flags: str) -> None:
        self.home = directory / name
        self.log = directory / f"{name}.log"
        command = ["-m", "teamwright", "--home", str(self.home), "--database", url, "worker", "--name", name, *flags]
        with self.log.open("wb") as output:
            self.process = preloaded.popen([sys.executable, *command], stdout=output, stderr=subprocess.STDOUT)
        wait_until(lambda: "slots on" in self.log.read_text() or self.process.poll() is not None)

    def kill(self) -> None:
        """Kill the machine: the worker and its members at once."""
        for pid in (self.process.pid, *self.children()):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(WAIT_S)

    def children(self) -> list[int]:
        """The processes that the worker started."""
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(WAIT_S)


def scripted(directory: Path, space: str, script: str = SCRIPT) -> Options:
    """The options of a session in this directory, whose agents the script plays and which asks for no permission."""
    path = directory / "machines.toml"
    path.write_text(script)
    return Options(cwd=directory, model=f"scripted:{path}", permission_mode="bypassPermissions", database=space)


def order(**changes) -> StartOrder:
    return StartOrder(**{"team": "demo", "member": "ada", "session": "s", "version": "1.0", "body": "{}"} | changes)


async def until(found) -> None:
    await asyncio.to_thread(wait_until, found)
