"""A person at a member's pane: a team whose members live in a tmux of their own, keys into it, its screen out."""

import asyncio
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pexpect

from teamwright import Team
from teamwright.protocol.events import Notice, TeamEvent
from teamwright.testing import LoopbackModel
from tests.support.programs import needs
from tests.support.waits import WAIT_S

TMUX = shutil.which("tmux")
needs_tmux = needs("tmux")


class Told:
    """Events of a team, and waiting for one of them."""

    def __init__(self, team: Team) -> None:
        self.events: list[TeamEvent] = []
        self._came = asyncio.Event()
        team.session.log.subscribe(self._note)

    def _note(self, _number: int, event: TeamEvent) -> None:
        self.events.append(event)
        self._came.set()

    async def until(self, says) -> Any:
        """The first event that is so."""
        async with asyncio.timeout(WAIT_S):
            while (found := next((one for one in self.events if says(one)), None)) is None:
                self._came.clear()
                await self._came.wait()
        return found


class Pane:
    """One pane, and a person at it."""

    def __init__(self, socket: str, id: str) -> None:
        self.socket, self.id = socket, id

    def tmux(self, *words: str) -> str:
        """Ask the server."""
        argv = [TMUX, "-u", "-S", self.socket, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def text(self) -> str:
        """All that stands in it, and what scrolled out."""
        return self.tmux("capture-pane", "-p", "-J", "-t", self.id, "-S", "-500")

    async def sees(self, *texts: str) -> None:
        """Wait until each text is there, in this order."""
        await self._until(lambda text: _in_order(text, texts), repr(texts))

    async def sees_no(self, text: str) -> None:
        """Wait until the text is gone."""
        await self._until(lambda there: text not in there, f"no {text!r}")

    async def types(self, *keys: str) -> None:
        """Press keys by tmux's names."""
        await asyncio.to_thread(self.tmux, "send-keys", "-t", self.id, *keys)

    async def says(self, line: str) -> None:
        """Type a line and press Enter."""
        await asyncio.to_thread(self.tmux, "send-keys", "-t", self.id, "-l", line)
        await self.types("Enter")

    async def _until(self, done, what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not done(text := await asyncio.to_thread(self.text)):
            assert time.monotonic() < deadline, f"{what} did not come; there was:\n{text}"


def _in_order(text: str, texts: tuple[str, ...]) -> bool:
    at = 0
    for one in texts:
        found = text.find(one, at)
        if found < 0:
            return False
        at = found + len(one)
    return True


class Client:
    """A terminal in which somebody looks at the pane."""

    def __init__(self, child: pexpect.spawn) -> None:
        self._child = child

    def sees(self, text: str) -> None:
        """Wait until the text was drawn in it."""
        self._child.expect_exact(text)

    def leaves(self) -> None:
        """Let go of the server, which goes on."""
        self._child.send("\x02d")
        self._child.expect(pexpect.EOF)


@contextmanager
def attached(pane: Pane, columns: int, rows: int) -> Generator[Client]:
    """Somebody attaches a terminal of this size."""
    pane.tmux("set-option", "-t", pane.id, "window-size", "latest")
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("TMUX", None)
    argv = ["-u", "-S", pane.socket, "attach"]
    child = pexpect.spawn(TMUX, argv, env=env, encoding="utf-8", dimensions=(rows, columns), timeout=WAIT_S)
    try:
        yield Client(child)
    finally:
        child.close(force=True)


@asynccontextmanager
async def crew(tmp_path: Path, play, **more: Any) -> AsyncGenerator[tuple[Team, Told, LoopbackModel]]:
    """A team that is in no terminal: its members are in a tmux of its own."""
    (tmp_path / "work").mkdir(exist_ok=True)
    async with LoopbackModel(play) as server:
        env = {key: value for key, value in os.environ.items() if not key.startswith("TMUX") and key != "NO_COLOR"}
        env |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-none", "LC_ALL": "C.UTF-8"}
        env |= more.pop("env", {})
        options = {"cwd": tmp_path / "work", "home": tmp_path / "home", "env": env, "backend": "tmux", **more}
        async with Team("crew", **options) as team:
            yield team, Told(team), server


async def pane_of(team: Team, told: Told, name: str) -> Pane:
    """The pane of a member, from what a person is told."""

    def says(event: TeamEvent) -> bool:
        return isinstance(event, Notice) and event.member == name and "tmux -S" in event.text

    notice = await told.until(says)
    found = re.search(r"tmux -S (\S+) attach", notice.text)
    assert found is not None, notice.text
    entry = (await team.session.team.roster.read()).find(name)
    assert entry is not None and entry.pane_id
    pane = Pane(found[1], entry.pane_id)
    pane.tmux("resize-window", "-t", pane.id, "-x", "80", "-y", "24")
    return pane
