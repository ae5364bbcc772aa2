"""One tmux server: which program, which socket, commands as argument lists, and what `tmux -V` says.

Below is the tmux program. Every call names the server, bears a deadline, and gives tmux an environment without
secrets, because a server that is started keeps it. Refuses to know panes, layouts and members.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import Mapping, Sequence

from teamwright.protocol.values import dataclass

LEAST_VERSION = (3, 2)
"""Of 2021: the first in which each pane can have a border colour. 3.3a is what it was tried with."""

_ANSWER_S = 20.0
_HANDED_ON = ("COLORTERM", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TMUX_TMPDIR", "TZ", "USER")
_NEWEST = (99, 0)
_UNREACHABLE = ("no server running", "error connecting", "server exited", "lost server")


class TmuxRefused(Exception):
    """tmux said no; the text is what it said."""


class TmuxGone(TmuxRefused):
    """There is no server at the socket."""


@dataclass(frozen=True, slots=True)
class Found:
    """The tmux of this machine: its path, the version as it says it, and why it cannot be used (empty when it can)."""

    program: str = ""
    version: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """A server by its address: `-S` with the path of its socket, or `-L` with a name and what else starts it."""

    program: str
    address: tuple[str, ...]
    environ: Mapping[str, str]

    async def ask(self, *commands: Sequence[str]) -> list[str]:
        """Run these commands in order, the rest not once one fails; the lines that they print.

        Raises TmuxGone, or TmuxRefused with what tmux said.
        """
        words: list[str] = []
        for command in commands:
            words += [";"] if words else []
            words += [_whole(word) for word in command]
        code, told, complaint = await _run([self.program, "-u", *self.address, *words], self.environ)
        if code != 0:
            said = complaint.strip() or told.strip() or f"status {code}"
            raise (TmuxGone if said.startswith(_UNREACHABLE) else TmuxRefused)(said)
        return told.splitlines()


async def find_tmux(environ: Mapping[str, str]) -> Found:
    """Look for tmux in the PATH of this environment and ask for its version. Never raises."""
    program = shutil.which("tmux", path=environ.get("PATH", ""))
    if program is None:
        return Found(why_not="tmux is not installed (no tmux in PATH)")
    try:
        code, told, complaint = await _run([program, "-V"], environ)
    except TmuxRefused as problem:
        return Found(program, why_not=str(problem))
    version = told.strip()
    number = version_of(version)
    least = ".".join(map(str, LEAST_VERSION))
    if code != 0 or number is None:
        return Found(
            program, version, f"{program} -V says {(version or complaint.strip())[:60]!r}, which is no version"
        )
    if number < LEAST_VERSION:
        return Found(program, version, f"{version} is too old: {least} or newer is needed")
    return Found(program, version)


def version_of(told: str) -> tuple[int, int] | None:
    """The version in what `tmux -V` says: `tmux 3.3a`, `tmux next-3.4`; builds without a number are the newest."""
    if re.fullmatch(r"tmux (master|openbsd-[\d.]+)", told):
        return _NEWEST
    match = re.fullmatch(r"tmux (?:next-)?(\d+)\.(\d+)[a-z]?(?:-rc\d*)?", told)
    return (int(match[1]), int(match[2])) if match else None


def literal(text: str) -> str:
    """Text for a place where tmux expands formats: names and titles."""
    return text.replace("#", "##")


def _whole(word: str) -> str:
    """The word as tmux takes it for one: a `;` at its end would end the command."""
    return word[:-1] + "\\;" if word.endswith(";") else word


async def _run(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str, str]:
    handed_on = {key: value for key, value in environ.items() if key in _HANDED_ON or key.startswith("LC_")}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=handed_on,
            cwd="/",  # a server keeps the directory that it was started in
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the lead's terminal is not meant for it
        )
    except (OSError, ValueError) as problem:
        raise TmuxRefused(f"{argv[0]} could not be run: {problem}") from problem
    try:
        async with asyncio.timeout(_ANSWER_S):
            told, complaint = await process.communicate()
    except TimeoutError:
        raise TmuxRefused(f"tmux did not answer within {_ANSWER_S:g} seconds") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    return process.returncode or 0, told.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")
