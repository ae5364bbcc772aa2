"""A repository, a home, and programs in a tmux of their own: what its screen shows, with and without colours.

The screen is that of tmux itself, so it is what a person sees. The temporary directory is written as `~`.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waits import WAIT_S, wait_until

PROGRAM = str(Path(sys.executable).with_name("teamwright"))
COLUMNS, ROWS = 100, 30
FLAGS = "# Flags\n\n- `--json`: one object a line.\n"
CODE = 'add("--verbose")\nadd("--since")\nadd("--json")\n'
PRICE = """def price(items, tax):
    total = sum(item.price for item in items)
    return total + tax
"""
"""The files of the repository: a page that lacks flags of the code, and a function with a mistake."""

LOOK_S = 0.05
"""The seconds between two looks at a screen."""

_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


class Stage:
    """A repository and a home in a temporary directory, with a tmux server for programs in it."""

    def __init__(self, place: Path) -> None:
        self.place, self.repo = place, place / "shop"
        (self.repo / "src").mkdir(parents=True)
        (self.repo / "docs").mkdir()
        (self.repo / "src" / "cli.py").write_text(CODE)
        (self.repo / "docs" / "flags.md").write_text(FLAGS)
        (self.repo / "src" / "price.py").write_text(PRICE)
        left_out = {"NO_COLOR", "TMUX", "TMUX_PANE", "CI", "COLORFGBG"}
        kept = {key: value for key, value in os.environ.items() if key not in left_out and "API_KEY" not in key}
        self.env = {**kept, "HOME": str(place / "home"), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "begin"]):
            subprocess.run([*git, *words], cwd=self.repo, env=self.env, check=True)
        os.mkfifo(self.repo / "gate")

    def run(self, *words: str) -> None:
        """Run the program to its end, without a terminal."""
        done = subprocess.run([PROGRAM, *words], cwd=self.repo, env=self.env, capture_output=True, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr

    def script(self, name: str, text: str) -> str:
        """Return a scripted model with this text."""
        path = self.place / f"{name}.toml"
        path.write_text(text)
        return f"scripted:{path}"

    @contextmanager
    def terminal(self, *words: str, columns: int = COLUMNS, rows: int = ROWS) -> Iterator["Terminal"]:
        """Run the program in a tmux that ends with the block."""
        terminal = Terminal(self, f"screen-{os.getpid()}", columns)
        size = ["-x", str(columns), "-y", str(rows)]
        terminal.tmux("-f", os.devnull, "new-session", "-d", *size, "-c", str(self.repo), *words)
        terminal.tmux("set-option", "-g", "remain-on-exit", "on")
        process = Path("/proc", terminal.tmux("display-message", "-p", "#{pane_pid}").strip())
        try:
            yield terminal
        finally:
            terminal.tmux("kill-server")
            wait_until(lambda: not process.exists(), "the end of the program")


class Terminal:
    """The one pane of a tmux server."""

    def __init__(self, stage: Stage, socket: str, columns: int) -> None:
        self.stage, self.socket, self.columns = stage, socket, columns

    def tmux(self, *words: str) -> str:
        """Ask the server."""
        argv = [shutil.which("tmux") or "tmux", "-u", "-L", self.socket, *words]
        return subprocess.run(
            argv, env=self.stage.env, capture_output=True, text=True, timeout=WAIT_S, check=True
        ).stdout

    def rows(self) -> list[str]:
        """Return the rows of the screen with their colours, without the empty ones at its end."""
        text = self.tmux("capture-pane", "-e", "-p").replace(str(self.stage.place), "~")
        return text.rstrip("\n").split("\n")

    def until(self, says: Callable[[str], object]) -> list[str]:
        """Wait until the text of the screen is so; return its rows."""
        deadline = time.monotonic() + WAIT_S
        while not says(text := plain(rows := self.rows())):
            assert time.monotonic() < deadline, text
            time.sleep(LOOK_S)
        return rows

    def lines(self) -> list[str]:
        """Return all lines since the start, each as the program wrote it: rows that tmux wrapped are joined."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-").rstrip("\n").split("\n")

    def types(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self.tmux("send-keys", *keys)


def plain(rows: list[str]) -> str:
    """Return the text of rows."""
    return "\n".join(_SEQUENCE.sub("", row) for row in rows)
