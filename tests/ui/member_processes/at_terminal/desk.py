"""A person at the lead's terminal while members live elsewhere: the real program in a pty, and where its members are.

`at_desk` is the program with members in processes of their own; with `stranger` another program runs them all.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from teamwright.testing.model_server import LoopbackModel
from tests.simulated_product.disk import NEWER
from tests.simulated_product.running import MEMBER, command
from tests.support.waits import wait_until
from tests.teams.backends.rig import Rig, private_server
from tests.teams.member_processes.started_members import Marked
from tests.ui.member_processes.house import DETACHED, TMUX
from tests.ui.terminal_driver import Person
from tests.ui.test_terminal_session import Reply, at_terminal

STRANGER = "stranger"
__all__ = ["DETACHED", "STRANGER", "TMUX", "Desk", "at_desk", "process_of"]


class Desk:
    """The person, and what is behind the terminal. `scripts` is where the logs of strangers are."""

    def __init__(self, person: Person, server: LoopbackModel, scripts: Path, rig: Rig | None) -> None:
        self.person, self.server, self.scripts, self.rig = person, server, scripts, rig

    def log(self, name: str) -> list[dict[str, Any]]:
        """What the stranger of this name logged so far."""
        path = self.scripts / f"{name}.log"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def logged(self, name: str, kind: str, has: str = "", **fits: Any) -> dict[str, Any]:
        """The first such line of its log, once it is there."""

        def found(line: dict[str, Any]) -> bool:
            fitting = line["kind"] == kind and has in json.dumps(line)
            return fitting and all(line.get(key) == value for key, value in fits.items())

        return wait_until(lambda: next((line for line in self.log(name) if found(line)), None), f"{name}: {kind} {has}")

    def pane(self, name: str) -> "Pane":
        """The pane of a member in tmux."""
        rig = self.rig
        assert rig is not None
        found = wait_until(lambda: [id for id, said in rig.panes("#{pane_title}").items() if name in said], name)
        return Pane(rig, found[0])


class Pane:
    """A member's pane, and a second person at it."""

    def __init__(self, rig: Rig, id: str) -> None:
        self.rig, self.id = rig, id

    def text(self) -> str:
        """All that stands in it, and what scrolled out."""
        return self.rig.run("capture-pane", "-p", "-J", "-t", self.id, "-S", "-500")

    def sees(self, *texts: str) -> None:
        """Wait until each text is there, in this order."""
        wait_until(lambda: in_order(self.text(), texts), f"{texts} in its pane")

    def says(self, line: str) -> None:
        """Type a line and press Enter."""
        self.rig.run("send-keys", "-t", self.id, "-l", line)
        self.rig.run("send-keys", "-t", self.id, "Enter")


def in_order(text: str, texts: tuple[str, ...]) -> bool:
    at = 0
    for one in texts:
        if (found := text.find(one, at)) < 0:
            return False
        at = found + len(one)
    return True


def process_of(marked: Marked, name: str) -> int:
    """The one process of a member: for a moment a command that it starts looks like another one."""
    return wait_until(lambda: pids[0] if len(pids := marked.members(name)) == 1 else 0, f"one process of {name}")


@contextmanager
def at_desk(
    play: Callable[[dict], Reply],
    repo: Path,
    home: Path,
    backend: str,
    marked: Marked,
    *args: str,
    turns: dict[str, list[dict[str, Any]]] | None = None,
    size: tuple[int, int] = (40, 100),
) -> Iterator[Desk]:
    """The program with its members in `backend`; `turns` are what strangers do, by name. Nobody lives after it."""
    scripts = home / "strangers"
    scripts.mkdir()
    members: dict[str, Any] = {"backend": DETACHED if backend == STRANGER else backend}
    if backend == STRANGER:
        said = scripts / "said.json"
        said.write_text(json.dumps({"members": {name: {"turns": them} for name, them in (turns or {}).items()}}))
        env = {"STRANGER_SCRIPT": str(said), "STRANGER_LOG": str(scripts / "{name}.log")}
        env["CLAUDE_CONFIG_DIR"] = str(home / ".teamwright")
        members |= {"command": "other", "commands": {"other": {"argv": command(MEMBER, NEWER), "env": env}}}
    settings = scripts / "settings.json"
    settings.write_text(json.dumps({"members": members}))
    with private_server() if backend == TMUX else nullcontext() as rig:
        where = {key: rig.environ[key] for key in ("TMUX", "TMUX_PANE")} if rig is not None else {}
        given = ("--settings", str(settings), *args)
        try:
            with at_terminal(play, repo, *given, size=size, **where) as (person, server):
                yield Desk(person, server, scripts, rig)
        finally:
            marked.end_all()
