"""A session's shell startup: read once, when the first command needs it, and kept for every command after that.

The user's shell starts as it would for them at a terminal, but with an empty stdin, no terminal, in their home and
within a time; whatever it started is ended. When it fails there is one warning, and commands run without it. Knows
shells and the file of the snapshot; does not know the commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from teamwright.protocol.errors import TeamwrightError
from teamwright.storage.atomic import write_atomic
from teamwright.storage.output import Output
from teamwright.storage.paths import make_private
from teamwright.storage.processes.process import Command, Process, finish
from teamwright.storage.processes.records import NOTHING_KNOWN, ProcessRecords
from teamwright.tools.shell.snapshot import (
    MOST,
    Dump,
    Snapshot,
    failure_of,
    parse_dump,
    path_for_commands,
    read_snapshot,
    script_of,
    without,
)
from teamwright.tools.shell.which import WITH_STARTUP, UserShell

FAILED_FOR_S = 600.0
"""How long a startup that failed is not tried again by another process, or another life, of the session."""

_CHECK_S = 5.0
_GRACE_S = 0.5
_RUN = '[ -n "$3" ] && \\builtin . "$3"\n\\builtin . "$1" "$2"'
_LOADS = '. "$1"'

STARTUP_FILES: Mapping[str, tuple[str, ...]] = {
    "bash": (
        "/etc/profile",
        "/etc/bash.bashrc",
        *("~/.bash_profile", "~/.bash_login", "~/.profile", "~/.bashrc", "~/.bash_aliases"),
    ),
    "zsh": (
        *("/etc/zsh/zshenv", "/etc/zsh/zshrc", "/etc/zshenv", "/etc/zshrc"),
        *("~/.zshenv", "~/.zprofile", "~/.zshrc", "~/.zlogin"),
    ),
}
"""What is looked at to tell whether a snapshot is still that of the startup; `~` is the home, or `$ZDOTDIR`."""


class _Failed(Exception):
    """The startup cannot be had; the text says why, for people."""


class Startup:
    """The startup of one session's shell, in one of its processes.

    `file` is where the snapshot lies. `environment` makes the environment that the startup files see: the user's own,
    never a repository's. `warn` is told, once, of a startup that failed. `within_s` is how long it may take; None means
    that no startup file is read at all.
    """

    def __init__(
        self,
        shell: UserShell,
        file: Path,
        environment: Callable[[], Mapping[str, str]],
        warn: Callable[[str], None],
        *,
        within_s: float | None = 10.0,
        records: ProcessRecords | None = None,
    ) -> None:
        self.shell = shell
        self._file = file
        self._environment = environment
        self._warn = warn
        self._within_s = within_s if shell.kind in WITH_STARTUP else None
        self._records = records
        self._taking: asyncio.Task[Snapshot] | None = None
        self.snapshot: Snapshot | None = None
        """What commands begin with; None before `ready`, and where there is nothing to begin with."""

    async def ready(self) -> Snapshot | None:
        """The snapshot, taken now if nobody did; None where commands run without one. Never raises but cancelled."""
        if self._within_s is None:
            return None
        if self.snapshot is not None and not self.snapshot.file.exists():
            self.snapshot = self._taking = None  # somebody tidied up
        if self._taking is None:
            self._taking = asyncio.create_task(self._take(self._within_s), name="shell startup")
        taken = await asyncio.shield(self._taking)
        self.snapshot = None if taken.failed else taken
        return self.snapshot

    async def close(self) -> None:
        """End a startup that is still being read."""
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait({self._taking})

    def path(self, inherited: str) -> str:
        """The PATH of commands, given the one of this process."""
        return path_for_commands(self.snapshot, inherited) if self.snapshot is not None else inherited

    async def _take(self, within_s: float) -> Snapshot:
        env = {name: value for name, value in self._environment().items() if name not in {"BASH_ENV", "ENV", "OLDPWD"}}
        home = Path(os.path.expanduser(env.get("HOME") or "~"))
        home = home if home.is_dir() else Path(os.sep)
        env |= {"PWD": str(home), "TERM": env.get("TERM") or "xterm"}
        wanted = Snapshot(self._file, self._fingerprint(env))
        known = read_snapshot(self._file)
        if known is not None and known.startup == wanted.startup and not (known.failed and _is_old(self._file)):
            return known
        try:
            dump = await self._dump(env, home, within_s)
            taken = replace(wanted, path=dump.path, aliases=dump.aliases)
            taken = await self._written(taken, dump, env, home)
        except (_Failed, OSError, TeamwrightError) as problem:
            taken = replace(wanted, failed=problem.what if isinstance(problem, TeamwrightError) else str(problem))
            self._warn(self._sentence(taken.failed))
            with contextlib.suppress(TeamwrightError):
                write_atomic(self._file, failure_of(taken))
        return taken

    async def _dump(self, env: Mapping[str, str], home: Path, within_s: float) -> Dump:
        """Start the shell as at a terminal, and have it write down what it has then."""
        make_private(self._file.parent)
        script = Path(__file__).with_name(f"dump.{self.shell.kind}")
        handle, name = tempfile.mkstemp(prefix=".", suffix=".dump", dir=self._file.parent)
        os.close(handle)
        try:
            argv = (self.shell.path, "-l", "-i", "-c", _RUN, "teamwright", str(script), name, self._more(home))
            code = await self._run(argv, env, home, within_s)
            if code is None:
                raise _Failed(f"it took longer than {within_s:g} s")
            with open(name, "rb") as file:
                content = file.read(MOST + 1)
        finally:
            Path(name).unlink(missing_ok=True)
        if len(content) > MOST:
            raise _Failed(f"its functions are more than {MOST:,} bytes")
        dump = parse_dump(self.shell.kind, content)
        if dump is None:
            raise _Failed(f"it ended the shell, or put another in its place (exit code {code})")
        return dump

    def _more(self, home: Path) -> str:
        """`~/.bashrc`, where bash's profile does not read it: at a terminal people have both."""
        ours = home / ".bashrc"
        if self.shell.kind != "bash" or not ours.is_file():
            return ""
        for name in (".bash_profile", ".bash_login", ".profile"):
            with contextlib.suppress(OSError):
                text = (home / name).read_text(encoding="utf-8", errors="replace")
                return "" if "bashrc" in text else str(ours)
        return str(ours)

    async def _written(self, taken: Snapshot, dump: Dump, env: Mapping[str, str], home: Path) -> Snapshot:
        """Write the file, without functions that the shell itself could not read again."""
        try:
            async with asyncio.timeout(_CHECK_S):
                broken = await self._broken(taken, dump, list(dump.functions), env, home)
        except TimeoutError:
            raise _Failed("its functions cannot be read again in time") from None
        write_atomic(self._file, script_of(taken, without(dump, broken)))
        return taken

    async def _broken(
        self, taken: Snapshot, dump: Dump, names: list[str], env: Mapping[str, str], home: Path
    ) -> list[str]:
        """Those of the functions that the shell cannot read from a script: all at once, then in halves."""
        kept = set(names)
        write_atomic(self._file, script_of(taken, without(dump, [name for name in dump.functions if name not in kept])))
        argv = (*bare(self.shell), "-c", _LOADS, "teamwright", str(self._file))
        if await self._run(argv, env, home, _CHECK_S) == 0:
            return []
        if len(names) <= 1:
            return names
        middle = len(names) // 2
        halves = (names[:middle], names[middle:])
        return [name for half in halves for name in await self._broken(taken, dump, half, env, home)]

    async def _run(self, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path, within_s: float) -> int | None:
        """Run it to its end and end all that it started; its exit code, or None when that took too long."""
        output = Output(0)
        process = Process.start(Command(argv, cwd, env, self._records, NOTHING_KNOWN), output)
        try:
            in_time = await finish(process, timeout_s=within_s, grace_s=_GRACE_S)
            await process.end(_GRACE_S)
        finally:
            process.close()
            output.close()
        return process.exit_code if in_time else None

    def _fingerprint(self, env: Mapping[str, str]) -> str:
        """Which shell it is, and when each file changed that its startup reads."""
        home = env.get("HOME") or "~"
        base = (env.get("ZDOTDIR") or home) if self.shell.kind == "zsh" else home
        seen = [self.shell.path]
        for name in STARTUP_FILES[self.shell.kind]:
            with contextlib.suppress(OSError):
                stat = os.stat(os.path.expanduser(name.replace("~", base, 1)))
                seen.append(f"{name} {stat.st_mtime_ns} {stat.st_size}")
        return "; ".join(seen)

    def _sentence(self, reason: str) -> str:
        shell = self.shell.path
        return (
            f"the startup of {shell} gave nothing: {reason}. Commands run without your functions, aliases and PATH."
            f" To see it: {shell} -l -i -c true </dev/null. bash.startup_s gives it more time, bash.startup: false"
            " leaves it out, bash.shell names another shell."
        )


def bare(shell: UserShell) -> tuple[str, ...]:
    """Program and flags of the shell without any startup file."""
    flags = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",)}
    return (shell.path, *flags.get(shell.kind, ()))


def _is_old(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime > FAILED_FOR_S
    except OSError:
        return True
