"""A person at a real terminal: the real program in a pty, keys in, a screen out; every wait is bounded.

`Screen` understands as much of a terminal as the program uses, so that tests see what a person sees.
"""

import json
import os
import re
import signal
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pexpect

from tests.support.leftovers import await_end
from tests.support.preloaded import COMMAND
from tests.support.preloaded_terminal import spawn
from tests.support.waits import WAIT_S

ENDING_S = 20.0
"""Seconds until a session that hung up is killed."""

CTRL_C, CTRL_D, ENTER, ALT_ENTER, BACKSPACE = "\x03", "\x04", "\r", "\x1b\r", "\x7f"
CTRL_T, ESC, UP, DOWN, SHIFT_UP, SHIFT_DOWN = "\x14", "\x1b", "\x1b[A", "\x1b[B", "\x1b[1;2A", "\x1b[1;2B"
_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>]")


class Screen:
    """What a terminal of this size shows; `above` is what scrolled out."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self.above: list[str] = []
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take what the program wrote."""
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            char = text[at]
            if char != "\x1b":
                self._char(char)
                at += 1
            elif found := _SEQUENCE.match(text, at):
                if found[2]:
                    self._do(found[1], found[2])
                at = found.end()
            else:
                self._rest = text[at:]
                return

    @property
    def text(self) -> str:
        """All lines, those that scrolled out first."""
        return "\n".join([*self.above, *("".join(line).rstrip() for line in self.lines)])

    @property
    def shown(self) -> list[str]:
        """The rows that are on the screen."""
        return ["".join(line).rstrip() for line in self.lines]

    def _char(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._down()
        elif char == "\x08":
            self.column = max(0, self.column - 1)
        elif char >= " ":
            self._put(char)

    def _put(self, char: str) -> None:
        if self.column >= self.columns:
            self.column = 0
            self._down()
        line = self.lines[self.row]
        line.extend(" " * (self.column + 1 - len(line)))
        line[self.column] = char
        self.column += 1
        if unicodedata.east_asian_width(char) in "WF":
            line.extend([""] * (self.column + 1 - len(line)))
            line[self.column] = ""
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])
        if len(self.lines) > self.rows:
            self.above.append("".join(self.lines.pop(0)).rstrip())
            self.row -= 1

    def _do(self, given: str, what: str) -> None:
        count = int(given) if given.isdigit() else 1
        match what:
            case "A":
                self.row = max(0, self.row - count)
            case "B":
                self.row = min(len(self.lines) - 1, self.row + count)
            case "C":
                self.column = min(self.columns - 1, self.column + count)
            case "D":
                self.column = max(0, self.column - count)
            case "J":
                del self.lines[self.row][self.column :]
                del self.lines[self.row + 1 :]
            case "K":
                del self.lines[self.row][self.column :]
            case _:
                pass


def decline_auto_allow(home: Path) -> None:
    """Store the person's no to `sandbox.auto_allow` in the user's settings, unless these are about the sandbox."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = home / "settings.json"
    settings = json.loads(file.read_text()) if file.exists() else {}
    if "sandbox" not in settings:
        file.write_text(json.dumps({**settings, "sandbox": {"auto_allow": False}}))


class Person:
    """Types at `teamwright`. `sees` waits until texts are on the screen, and fails with all that is on it."""

    def __init__(
        self,
        *args: str,
        cwd: Path,
        size: tuple[int, int] = (40, 100),
        starts_after_line: bool = False,
        offers_auto_allow: bool = False,
        **env: str,
    ) -> None:
        """Start it; with `starts_after_line` by a shell that first reads a line, so that more can be typed before.

        `offers_auto_allow`: a session in a sandbox may offer that setting, which is one question more than without one.
        """
        own = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "CI", "TMUX", "TMUX_PANE"}}
        environment = {**own, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env}
        if not offers_auto_allow and environment.get("TEAMWRIGHT_SANDBOX") != "off":
            decline_auto_allow(Path(environment["TEAMWRIGHT_HOME"]))
        if starts_after_line:
            shell = ["-c", 'read -r line; exec "$@"', "sh", *COMMAND, *args]
            self.child = pexpect.spawn(
                "sh", shell, cwd=str(cwd), env=environment, dimensions=size, encoding="utf-8", echo=False
            )
        else:
            self.child = spawn([*COMMAND, *args], cwd=str(cwd), env=environment, dimensions=size)
        self.child.delaybeforesend = None
        self.screen = Screen(*size)
        self.raw = ""

    def sees(self, *texts: str) -> None:
        """Wait until each text is on the screen, or scrolled out of it, in this order."""
        deadline = time.monotonic() + WAIT_S
        while not self._shown(texts):
            if not self._read(deadline):
                raise AssertionError(f"{texts!r} did not come; there was:\n{self.screen.text}")

    def until(self, says: Callable[[list[str]], object]) -> list[str]:
        """Wait until what is on the screen is so: its rows from the top, without what scrolled out; those rows."""
        deadline = time.monotonic() + WAIT_S
        while not says(self.screen.shown):
            if not self._read(deadline):
                raise AssertionError("it did not come; the screen was:\n" + "\n".join(self.screen.shown))
        return self.screen.shown

    def resizes(self, rows: int, columns: int) -> None:
        """The window has another size from now on."""
        self.screen.rows, self.screen.columns = rows, columns
        self.child.setwinsize(rows, columns)

    def shows(self, text: str) -> bool:
        """Whether the text is on the screen now."""
        return text in self.screen.text

    def types(self, keys: str) -> None:
        """Press keys, without Enter."""
        self.child.send(keys)

    def says(self, line: str) -> None:
        """Type a line and press Enter."""
        self.child.send(line + ENTER)

    def says_until(self, line: str, begin: str, text: str) -> None:
        """Type a line again and again until the row of its answer that begins so has the text. For `TERM=dumb`."""
        deadline = time.monotonic() + WAIT_S
        row = ""
        while text not in row:
            before = len(self.raw)
            self.says(line)
            while not (found := re.search(rf"\n({re.escape(begin)}[^\r\n]*)\r?\n", self.raw[before:])):
                if not self._read(deadline):
                    raise AssertionError(f"no row {begin!r} had {text!r}; there was:\n{self.screen.text}")
            row = found[1]

    def leaves(self) -> int:
        """Wait for the end; gives the exit code, negative for a signal."""
        deadline = time.monotonic() + WAIT_S
        while self._read(deadline):
            pass
        if not self.child.flag_eof:
            raise AssertionError(f"it did not end:\n{self.screen.text}")
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus

    def ends(self) -> None:
        """End it, whatever it does; it is gone when this returns. A hang-up gives it time to end its commands."""
        if self.child.isalive():
            self.child.kill(signal.SIGHUP)
            await_end(self.child.pid, ENDING_S)
        try:
            self.child.close(force=True)
        except pexpect.ExceptionPexpect:  # it was killed, and a machine at work takes its time
            self.child.ptyproc.wait()

    def _shown(self, texts: tuple[str, ...]) -> bool:
        at = 0
        for text in texts:
            found = self.screen.text.find(text, at)
            if found < 0:
                return False
            at = found + len(text)
        return True

    def _read(self, deadline: float) -> bool:
        try:
            came = self.child.read_nonblocking(4096, timeout=max(0.0, deadline - time.monotonic()))
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self.raw += came
        self.screen.feed(came)
        return True
