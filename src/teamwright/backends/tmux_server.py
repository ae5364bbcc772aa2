"""One tmux server: program, socket, commands as argument lists, and the version.

Depends on the tmux program. Every call names the server and has a deadline. tmux receives an environment without
secrets, because a started server keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.processes.program_environment import find_program, own_variables
from teamwright.protocol.time_limit import time_limit

OWN_SOCKET_PREFIX = "teamwright-"
"""The prefix of the socket names of our own servers."""


def is_own_socket(path: str) -> bool:
    """Return whether this is the socket of a server that we start outside of the user's tmux."""
    return Path(path).name.startswith(OWN_SOCKET_PREFIX)


def remove_socket(path: str) -> None:
    """Remove the file of a server that has ended. Does nothing when it cannot be removed."""
    with contextlib.suppress(OSError):
        Path(path).unlink()


def remove_dead_sockets(own_socket: str) -> None:
    """Remove the socket files of our own servers in the directory of this one that no server answers."""
    with contextlib.suppress(OSError):
        for path in Path(own_socket).parent.iterdir():
            if is_own_socket(str(path)) and str(path) != own_socket and _is_dead(path):
                remove_socket(str(path))


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


MIN_VERSION = (3, 2)
"""Of 2021: the first in which each pane can have a border colour. 3.3a is what it was tried with."""

_ANSWER_S = 20.0
_PASSED_VARIABLES = (
    "COLORTERM",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TMUX_TMPDIR",
    "TZ",
    "USER",
)
_NEWEST = (99, 0)
_UNREACHABLE = ("no server running", "error connecting", "server exited", "lost server", "no current target")
"""Messages of tmux without a server. The last one is of a server whose last session has just ended."""


class TmuxError(Exception):
    """An error of tmux; the text is tmux's own."""


class TmuxServerGone(TmuxError):
    """No server at the socket."""


class TmuxProgram(Struct, frozen=True):
    """The tmux of this machine: its path, its version text, and why it cannot be used (empty when it can)."""

    program: str = ""
    version: str = ""
    problem: str = ""


class TmuxServer(Struct, frozen=True):
    """A server by its address: `-S` with the path of its socket, or `-L` with a name and further start options."""

    program: str
    address: tuple[str, ...]
    environ: Mapping[str, str]

    async def run(self, *commands: Sequence[str]) -> list[str]:
        """Run these commands in order, stopping at the first failure. Returns the lines of output.

        Raises TmuxServerGone, or TmuxError with tmux's message.
        """
        words: list[str] = []
        for command in commands:
            words += [";"] if words else []
            words += [_escape_word(word) for word in command]
        code, output, complaint = await _run([self.program, "-u", *self.address, *words], self.environ)
        if code != 0:
            problem = complaint.strip() or output.strip() or f"status {code}"
            raise (TmuxServerGone if problem.startswith(_UNREACHABLE) else TmuxError)(problem)
        return output.splitlines()


async def find_tmux(environ: Mapping[str, str]) -> TmuxProgram:
    """Find tmux in the PATH of this environment and read its version. Never raises."""
    program = find_program("tmux", environ.get("PATH", ""))
    if not program:
        return TmuxProgram(problem="tmux is not installed (no tmux in PATH)")
    try:
        code, output, complaint = await _run([program, "-V"], environ)
    except TmuxError as problem:
        return TmuxProgram(program, problem=str(problem))
    version = output.strip()
    number = parse_version(version)
    least = ".".join(map(str, MIN_VERSION))
    if code != 0 or number is None:
        return TmuxProgram(
            program, version, f"{program} -V says {(version or complaint.strip())[:60]!r}, which is no version"
        )
    if number < MIN_VERSION:
        return TmuxProgram(program, version, f"{version} is too old: {least} or newer is needed")
    return TmuxProgram(program, version)


def parse_version(output: str) -> tuple[int, int] | None:
    """Return the version in the output of `tmux -V`: `tmux 3.3a`, `tmux next-3.4`; builds without a number count as the
    newest.
    """
    if re.fullmatch(r"tmux (master|openbsd-[\d.]+)", output):
        return _NEWEST
    match = re.fullmatch(r"tmux (?:next-)?(\d+)\.(\d+)[a-z]?(?:-rc\d*)?", output)
    return (int(match[1]), int(match[2])) if match else None


def escape_format(text: str) -> str:
    """Escape text that tmux expands as a format: names and titles."""
    return text.replace("#", "##")


def _escape_word(word: str) -> str:
    """Return the word in a form that tmux takes for one: a `;` at its end would end the command."""
    return word[:-1] + "\\;" if word.endswith(";") else word


async def _run(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str, str]:
    passed = {key: value for key, value in environ.items() if key in _PASSED_VARIABLES or key.startswith("LC_")}
    handed_on = own_variables(passed)  # the commands of a configuration run with the PATH of the server
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=handed_on,
            cwd="/",  # a server keeps its start directory
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the lead's terminal must not reach it
        )
    except (OSError, ValueError) as problem:
        raise TmuxError(f"{argv[0]} could not be run: {problem}") from problem
    try:
        async with time_limit(_ANSWER_S):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise TmuxError(f"tmux did not answer within {_ANSWER_S:g} seconds") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    return process.returncode or 0, output.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")
