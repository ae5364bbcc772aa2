"""The shell of a session and its startup: read once, before the first command that needs it, and kept after that.

Commands run in the user's shell if it is bash or zsh, else in bash, else in sh. For its startup the shell runs as at a
terminal, but with an empty stdin, no terminal, in the home directory and with a timeout; all processes that it started
are ended. After a failure there is one warning, and commands run without it. Depends on the snapshot file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.processes.process_records import UNKNOWN_PURPOSE, ProcessRecords
from teamwright.processes.program_environment import changeable_directories, find_program, is_changeable, own_variables
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.atomic_write import write_atomic
from teamwright.storage.paths import make_private
from teamwright.tools.shell.snapshot import (
    MAX_DUMP,
    ShellDump,
    ShellSnapshot,
    command_path,
    parse_dump,
    read_snapshot,
    render_failure,
    render_script,
    without_functions,
)

STARTUP_SHELLS = ("bash", "zsh")
"""Shells whose startup files are read for commands."""

_KNOWN_SHELLS = (*STARTUP_SHELLS, "sh", "dash")


class UserShell(Struct, frozen=True):
    """A shell: its absolute path, its kind (`bash`, `zsh`, `sh` or `dash`), and the reason for people."""

    path: str
    kind: str
    reason: str


def plain_shell() -> str:
    """Return the shell of hooks, checks and commands that are proven to be read-only: bash if there is one, else sh."""
    return find_program("bash") or "/bin/sh"


def user_shell(setting: str, env: Mapping[str, str]) -> UserShell:
    """Return the shell that the setting `bash.shell` names, else `$SHELL` of this environment, else bash, else sh.

    Raises CannotStart (`bad-settings`) for a name that is not a working shell.
    """
    if setting:
        return _named_shell(setting)
    own = env.get("SHELL", "")
    kind = os.path.basename(own)
    is_safe = os.path.isabs(own) and not is_changeable(own, changeable_directories())
    if kind in STARTUP_SHELLS and is_safe and os.access(own, os.X_OK):
        return UserShell(own, kind, "your $SHELL")
    reason = f"$SHELL is {own}, which is {_why_unused(kind)}" if own else "there is no $SHELL"
    path = plain_shell()
    return UserShell(path, os.path.basename(path), reason)


def _why_unused(kind: str) -> str:
    return "not a program that commands cannot change" if kind in STARTUP_SHELLS else "neither bash nor zsh"


def _named_shell(setting: str) -> UserShell:
    name = os.path.expanduser(setting)
    path = find_program(name) if "/" not in name else shutil.which(name) if os.path.isabs(name) else None
    kind = os.path.basename(name)
    if path is None or not os.path.isabs(path) or kind not in _KNOWN_SHELLS:
        reason = (
            f"it is none of {', '.join(_KNOWN_SHELLS)}" if kind not in _KNOWN_SHELLS else "there is no such program"
        )
        raise CannotStart(
            "bad-settings",
            f"bash.shell names a shell that cannot be used: {setting[:200]!r}",
            looked_at=[("reason", reason)],
            do=["name bash, zsh, sh, or the whole path of one", "leave it out: then it is your $SHELL"],
            note="nothing was started",
        )
    return UserShell(path, kind, "the setting bash.shell")


RETRY_AFTER_S = 600.0
"""Seconds during which no process or later run of the session tries a failed startup again."""

_CHECK_S = 5.0
_GRACE_S = 0.5
_DUMP_COMMAND = '[ -n "$3" ] && \\builtin . "$3"\n\\builtin . "$1" "$2"'
_LOAD_COMMAND = '. "$1"'

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
"""The files that decide if a snapshot is still current; `~` is the home, or `$ZDOTDIR`."""


class _StartupFailed(Exception):
    """The startup failed; the text is the reason, for people."""


class ShellStartup:
    """The startup of one session's shell, in one of its processes.

    `file` is the snapshot. `environment` makes the environment of the startup files: the user's, never a repository's.
    `warn` is called once for a failed startup. `timeout_s` is its longest duration in seconds; None reads no startup
    file.
    """

    def __init__(
        self,
        shell: UserShell,
        file: Path,
        environment: Callable[[], Mapping[str, str]],
        warn: Callable[[str], None],
        *,
        timeout_s: float | None = 10.0,
        records: ProcessRecords | None = None,
    ) -> None:
        self.shell = shell
        self._file = file
        self._environment = environment
        self._warn = warn
        self._timeout_s = timeout_s if shell.kind in STARTUP_SHELLS else None
        self._records = records
        self._snapshot_task: asyncio.Task[ShellSnapshot] | None = None
        self.snapshot: ShellSnapshot | None = None
        """The snapshot for commands; None before `ensure_ready`, and without a startup."""

    async def ensure_ready(self) -> ShellSnapshot | None:
        """Return the snapshot, taken now if there is none; None when commands run without one.

        Raises only CancelledError.
        """
        if self._timeout_s is None:
            return None
        if self.snapshot is not None and not self.snapshot.file.exists():
            self.snapshot = self._snapshot_task = None  # the file was deleted
        if self._snapshot_task is None:
            self._snapshot_task = asyncio.create_task(self._take_snapshot(self._timeout_s), name="shell startup")
        taken = await asyncio.shield(self._snapshot_task)
        self.snapshot = None if taken.failed else taken
        return self.snapshot

    async def close(self) -> None:
        """End a startup that is still being read."""
        if self._snapshot_task is not None:
            self._snapshot_task.cancel()
            await asyncio.wait({self._snapshot_task})

    def command_path(self, inherited: str) -> str:
        """Return the PATH of commands, given the one of this process."""
        return command_path(self.snapshot, inherited) if self.snapshot is not None else inherited

    async def _take_snapshot(self, timeout_s: float) -> ShellSnapshot:
        # Startup files run programs by name, outside of the sandbox.
        env = own_variables(self._environment())
        env = {name: value for name, value in env.items() if name not in {"BASH_ENV", "ENV", "OLDPWD"}}
        home = Path(os.path.expanduser(env.get("HOME") or "~"))
        home = home if home.is_dir() else Path(os.sep)
        env |= {"PWD": str(home), "TERM": env.get("TERM") or "xterm"}
        snapshot = ShellSnapshot(self._file, self._fingerprint(env))
        known = read_snapshot(self._file)
        if known is not None and known.startup == snapshot.startup and not (known.failed and _is_old(self._file)):
            return known
        try:
            dump = await self._dump(env, home, timeout_s)
            taken = replace(snapshot, path=dump.path, aliases=dump.aliases)
            taken = await self._write_snapshot(taken, dump, env, home)
        except (_StartupFailed, OSError, TeamwrightError) as problem:
            taken = replace(snapshot, failed=problem.what if isinstance(problem, TeamwrightError) else str(problem))
            self._warn(self._failure_sentence(taken.failed))
            with contextlib.suppress(TeamwrightError):
                write_atomic(self._file, render_failure(taken))
        return taken

    async def _dump(self, env: Mapping[str, str], home: Path, timeout_s: float) -> ShellDump:
        """Start the shell as at a terminal and have it write its state."""
        make_private(self._file.parent)
        script = Path(__file__).with_name(f"dump.{self.shell.kind}")
        handle, name = tempfile.mkstemp(prefix=".", suffix=".dump", dir=self._file.parent)
        os.close(handle)
        try:
            argv = (
                self.shell.path,
                "-l",
                "-i",
                "-c",
                _DUMP_COMMAND,
                "teamwright",
                str(script),
                name,
                self._extra_startup_file(home),
            )
            code = await self._run(argv, env, home, timeout_s)
            if code is None:
                raise _StartupFailed(f"it took longer than {timeout_s:g} s")
            with open(name, "rb") as file:
                content = file.read(MAX_DUMP + 1)
        finally:
            Path(name).unlink(missing_ok=True)
        if len(content) > MAX_DUMP:
            raise _StartupFailed(f"its functions are more than {MAX_DUMP:,} bytes")
        dump = parse_dump(self.shell.kind, content)
        if dump is None:
            raise _StartupFailed(f"it ended the shell, or put another in its place (exit code {code})")
        return dump

    def _extra_startup_file(self, home: Path) -> str:
        """Return `~/.bashrc` when bash's profile does not read it: at a terminal users have both."""
        ours = home / ".bashrc"
        if self.shell.kind != "bash" or not ours.is_file():
            return ""
        for name in (".bash_profile", ".bash_login", ".profile"):
            with contextlib.suppress(OSError):
                text = (home / name).read_text(encoding="utf-8", errors="replace")
                return "" if "bashrc" in text else str(ours)
        return str(ours)

    async def _write_snapshot(
        self, taken: ShellSnapshot, dump: ShellDump, env: Mapping[str, str], home: Path
    ) -> ShellSnapshot:
        """Write the snapshot, without functions that the shell could not read again."""
        try:
            async with time_limit(_CHECK_S):
                broken = await self._unreadable_functions(taken, dump, list(dump.functions), env, home)
        except TimeoutError:
            raise _StartupFailed("its functions cannot be read again in time") from None
        readable_dump = without_functions(dump, broken)
        write_atomic(self._file, render_script(taken, readable_dump))
        return replace(taken, functions=tuple(readable_dump.functions))

    async def _unreadable_functions(
        self, taken: ShellSnapshot, dump: ShellDump, names: list[str], env: Mapping[str, str], home: Path
    ) -> list[str]:
        """Return the functions that the shell cannot read from a script: all are tried at once, then halves."""
        tried_names = set(names)
        write_atomic(
            self._file,
            render_script(taken, without_functions(dump, [name for name in dump.functions if name not in tried_names])),
        )
        argv = (*bare_argv(self.shell), "-c", _LOAD_COMMAND, "teamwright", str(self._file))
        if await self._run(argv, env, home, _CHECK_S) == 0:
            return []
        if len(names) <= 1:
            return names
        middle = len(names) // 2
        halves = (names[:middle], names[middle:])
        return [name for half in halves for name in await self._unreadable_functions(taken, dump, half, env, home)]

    async def _run(self, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path, timeout_s: float) -> int | None:
        """Run a program and end all processes that it started. Return its exit code, or None after the timeout."""
        from teamwright.processes.process_group import Process, ProcessCommand, wait_or_terminate
        from teamwright.processes.process_output import ProcessOutput

        output = ProcessOutput(0)
        process = Process.start(ProcessCommand(argv, cwd, env, self._records, UNKNOWN_PURPOSE), output)
        try:
            in_time = await wait_or_terminate(process, timeout_s=timeout_s, grace_s=_GRACE_S)
            await process.terminate(_GRACE_S)
        finally:
            process.close()
            output.close()
        return process.exit_code if in_time else None

    def _fingerprint(self, env: Mapping[str, str]) -> str:
        """Return the identity of the shell, and the modification time of each startup file."""
        home = env.get("HOME") or "~"
        base = (env.get("ZDOTDIR") or home) if self.shell.kind == "zsh" else home
        seen = [self.shell.path]
        for name in STARTUP_FILES[self.shell.kind]:
            with contextlib.suppress(OSError):
                stat = os.stat(os.path.expanduser(name.replace("~", base, 1)))
                seen.append(f"{name} {stat.st_mtime_ns} {stat.st_size}")
        return "; ".join(seen)

    def _failure_sentence(self, reason: str) -> str:
        shell = self.shell.path
        return (
            f"the startup of {shell} gave nothing: {reason}. Commands run without your functions, aliases and PATH."
            f" To see it: {shell} -l -i -c true </dev/null. bash.startup_s gives it more time, bash.startup: false"
            " leaves it out, bash.shell names another shell."
        )


def bare_argv(shell: UserShell) -> tuple[str, ...]:
    """Return program and flags of the shell without any startup file."""
    flags = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",)}
    return (shell.path, *flags.get(shell.kind, ()))


def _is_old(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime > RETRY_AFTER_S
    except OSError:
        return True
