"""The same in a real tmux: what its own screen shows of rows, keys, a window that gets narrow, and the scrollback."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.support.programs import needs
from tests.support.waits import WAIT_S
from tests.ui.terminal.crew import below, crew, gates, last, opens, row_of

__all__ = ["gates"]

TMUX = shutil.which("tmux")
pytestmark = needs("tmux")


class Pane:
    """The program in the one pane of a server of its own."""

    def __init__(self, socket: str, env: dict[str, str], cwd: Path) -> None:
        self.socket, self.env = socket, env
        program = str(Path(sys.executable).with_name("teamwright"))
        size = ["-x", "90", "-y", "30"]
        args = ["--model", "sonnet", "--backend", "in-process"]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(cwd), program, *args)

    def tmux(self, *words: str) -> str:
        """Ask the server."""
        argv = [TMUX or "", "-u", "-L", self.socket, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=WAIT_S, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, *, past: bool = False) -> list[str]:
        """What its screen shows; with `past` also what scrolled out."""
        return self.tmux("capture-pane", "-p", *(["-S", "-"] if past else [])).rstrip("\n").split("\n")

    def until(self, says: Callable[[list[str]], object]) -> list[str]:
        """Wait until the screen is so."""
        deadline = time.monotonic() + WAIT_S
        while not says(rows := self.rows()):
            assert time.monotonic() < deadline, "it did not come; the screen was:\n" + "\n".join(rows)
        return rows

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's names."""
        self.tmux("send-keys", *names)


@contextmanager
def in_tmux(cwd: Path) -> Iterator[Pane]:
    """The program in a tmux that ends with the block."""
    socket = f"tw-panel-{os.getpid()}"
    with LoopbackModel.in_thread(crew) as server:
        env = {key: value for key, value in os.environ.items() if not key.startswith("TMUX") and key != "NO_COLOR"}
        keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234", "LC_ALL": "C.UTF-8"}
        pane = Pane(socket, env | keys | {"TERM": "xterm-256color"}, cwd)
        try:
            pane.until(lambda rows: len(below(rows)) == 1)
            yield pane
        finally:
            subprocess.run([TMUX or "", "-L", socket, "kill-server"], check=False, capture_output=True, timeout=WAIT_S)


@pytest.mark.promise("H9", "C10", "F28")
def test_in_tmux_members_are_seen_chosen_and_interrupted_through_a_change_of_size(gates):
    with in_tmux(gates) as pane:
        pane.keys("go", "Enter")
        pane.until(lambda rows: "cat gate-ada" in row_of(rows, "ada") and "cat gate-ben" in row_of(rows, "ben"))
        pane.tmux("resize-window", "-x", "40", "-y", "20")
        rows = pane.until(lambda rows: row_of(rows, "ada") and len(below(rows)) == 4 and len(last(rows)) < 40)
        assert sum("0/2 tasks" in row for row in rows) == 1
        pane.tmux("resize-window", "-x", "90", "-y", "30")
        pane.until(lambda rows: "sonnet" in last(rows))
        pane.keys("Down")
        pane.until(lambda rows: row_of(rows, "ada").startswith(">"))
        pane.keys("S-Down")
        pane.until(lambda rows: row_of(rows, "ben").startswith(">"))
        pane.keys("Enter")
        pane.until(lambda rows: any(row.startswith("@ben>") for row in rows))
        pane.keys("C-c")
        pane.until(lambda rows: any("ben's turn was ended" in row for row in rows) and "idle" in row_of(rows, "ben"))
        pane.keys("C-t")
        pane.until(lambda rows: any("▸ #1 job of ada" in row for row in below(rows)))
        pane.keys("Escape")
        pane.until(lambda rows: any(row.startswith("── lead ──") for row in rows))
        opens(gates, "ada")
        pane.until(lambda rows: any("ada → lead: ada is through." in row for row in rows))
        past = "\n".join(pane.rows(past=True))
        assert all(words in past for words in ("> go", "They are at it.", "── ben ·", "ada is through."))
        assert "1 on" not in pane.tmux("display-message", "-p", "#{alternate_on} on")
