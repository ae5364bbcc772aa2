"""The shell of a session and its startup: read once, before the first command that needs it, and kept as a snapshot.

Commands run in the user's shell if it is bash or zsh, else in bash, else in sh. For its startup the shell runs as at a
terminal, but with an empty stdin, no terminal, in the home directory and with a timeout; all processes that it started
are ended. After a failure there is one warning, and commands run without it. The snapshot keeps functions, aliases,
options and PATH, and no variables; its format is docs/reference/formats/shell-snapshots.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.processes.process_records import UNKNOWN_PURPOSE, ProcessRecords
from teamwright.processes.program_environment import (
    absolute_entries,
    changeable_directories,
    find_program,
    is_changeable,
    own_variables,
)
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.time_limit import time_limit
from teamwright.shell_lines.command_words import word_set
from teamwright.storage.files import write_atomic
from teamwright.storage.paths import make_private

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
    why = "not a program that commands cannot change" if kind in STARTUP_SHELLS else "neither bash nor zsh"
    reason = f"$SHELL is {own}, which is {why}" if own else "there is no $SHELL"
    path = plain_shell()
    return UserShell(path, os.path.basename(path), reason)


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
            words = ("teamwright", str(script), name, self._extra_startup_file(home))
            argv = (self.shell.path, "-l", "-i", "-c", _DUMP_COMMAND, *words)
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
        argv = (*bare_argv(self.shell), "-c", '. "$1"', "teamwright", str(self._file))
        if await self._run(argv, env, home, _CHECK_S) == 0:
            return []
        if len(names) <= 1:
            return names
        middle = len(names) // 2
        halves = (names[:middle], names[middle:])
        return [name for half in halves for name in await self._unreadable_functions(taken, dump, half, env, home)]

    async def _run(self, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path, timeout_s: float) -> int | None:
        """Run a program and end all processes that it started. Return its exit code, or None after the timeout."""
        from teamwright.processes.commands import Process, ProcessCommand, ProcessOutput, wait_or_terminate

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


VERSION = 2

MAX_DUMP = 4_000_000
"""The largest dump in bytes. A larger one is refused."""

_TITLE = f"# teamwright shell snapshot {VERSION}"
_MAX_HEAD = 2_000_000

_BASH_SHOPTS = word_set(
    "extglob failglob globstar gnu_errfmt inherit_errexit localvar_inherit localvar_unset nocasematch"
    " patsub_replacement shift_verbose sourcepath xpg_echo"
)
"""Options that commands keep. Those that change which files a pattern names, where `cd` leads or which process a part
of a pipeline runs in are not among them: a verdict reads lines without them."""

_BASH_OPTIONS = frozenset({"noclobber", "pipefail"})
_DROPPED_ZSH_OPTIONS = re.compile(
    r"(no)?(aliases|allexport|autocd|beep|bgnice|cdablevars|chasedots|chaselinks|correct|correctall|dvorak|emacs|equals"
    r"|errexit|errreturn|exec|flowcontrol|pathdirs"
    r"|globalexport|globalrcs|hup|ignoreeof|interactive|kshautoload|listbeep|login|monitor|notify|privileged"
    r"|promptcr|promptsp|rcexpandparam|rcquotes|rcs|restricted|shinstdin|singlecommand|sourcetrace|sunkeyboardhack"
    r"|trapsasync|typesettounset|unset|verbose|vi|warncreateglobal|warnnestedvar|xtrace|zle"
    r"|(append|bang|csh|extended|hist|incappend|inc|share).*hist.*|hist.*|cshjunkie.*|ignore.*braces)"
)
"""Options for interactive shells, and those that would end, trace or misread an agent's command, or change where `cd`
and a program's name lead."""

_SHELL_HOOKS = word_set(
    "command_not_found_handle command_not_found_handler precmd preexec chpwd periodic zshaddhistory zshexit"
    " zsh_directory_name compinit compdef compdump compaudit compinstall bashcompinit"
)
"""Functions that the shell calls automatically or for completion. Agents' shells are not interactive."""

_WORD = re.compile(r"[\w.:@+-]+")
_NAME_BEGINNING = re.compile(r"([\w.:@+-]{3,})\$")
"""The beginning of a function's name that a text completes with a variable: `"_select_$name"`."""

_INTERACTIVE_FLAG = r"(?:\s-(?!-)\w*[iI]|\s--interactive)"
_ASKING = {name: re.compile(rf"\b{name}(?:\s-\S+)*?{_INTERACTIVE_FLAG}") for name in ("rm", "cp", "mv", "ln")}
"""Commands that ask first with a flag, and how a text calls them with it."""


class ShellDump(Struct, frozen=True):
    """The state of a shell after its startup. `options` are lines for the shell; functions are texts by name."""

    options: tuple[str, ...]
    path: str
    aliases: Mapping[str, str]
    functions: Mapping[str, str]


class ShellSnapshot(Struct, frozen=True):
    """A startup for commands: the script `file` and the fields of its header.

    `startup` identifies the shell and its startup files. `functions` are the names of the functions in the script.
    `failed` is the reason why there is no script.
    """

    file: Path
    startup: str
    path: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    functions: tuple[str, ...] = ()
    failed: str = ""


def parse_dump(kind: str, content: bytes) -> ShellDump | None:
    """Parse the output of `dump.bash` or `dump.zsh`; return None when it is incomplete."""
    parts = [part.decode("utf-8", "surrogateescape") for part in content.split(b"\0")]
    if len(parts) < 4 or parts[-2:] != ["end", ""]:
        return None
    if kind == "zsh":
        names = [name for name in parts[0].split() if not _DROPPED_ZSH_OPTIONS.fullmatch(name)]
        options = (f"setopt {' '.join(names)}",) if names else ()
        path = parts[1]
        end = next((at for at in range(2, len(parts), 2) if not parts[at]), len(parts))
        aliases = dict(zip(parts[2:end:2], parts[3:end:2], strict=False))
        rest = parts[end + 1 : -2]
    else:
        on = [line.removeprefix("set -o ") for line in parts[0].splitlines() if line.startswith("set -o ")]
        lines = [f"set -o {name}" for name in on if name in _BASH_OPTIONS]
        for line in parts[1].splitlines():
            words = line.split()
            if len(words) == 3 and words[2] in _BASH_SHOPTS:
                lines.append(line)
        options = tuple(lines)
        path = parts[2]
        aliases = _bash_aliases(parts[3])
        rest = parts[4:-2]
    functions = dict(zip(rest[::2], rest[1::2], strict=False))
    return ShellDump(options, path, _useful_aliases(aliases, functions), _needed_functions(functions, aliases))


def _bash_aliases(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:
        return {}
    found = (word.partition("=") for word in words if word not in {"alias", "--"})
    return {name: body for name, sign, body in found if sign}


def _useful_aliases(aliases: Mapping[str, str], functions: Mapping[str, str]) -> dict[str, str]:
    """Return the aliases without those with which rm and similar commands ask first: no person could answer.

    An alias may also lead to the flag by functions, as oh-my-bash's `cp` does.
    """
    left_out = {name for name in _ASKING if name in aliases and _asks_first(name, aliases[name], functions)}
    return {name: body for name, body in aliases.items() if name not in left_out and not name.isspace() and name}


def _asks_first(name: str, body: str, functions: Mapping[str, str]) -> bool:
    if re.search(_INTERACTIVE_FLAG, body):
        return True
    reached = _reach_functions([body], functions)
    return any(_ASKING[name].search(functions[one]) for one in reached)


def _needed_functions(functions: Mapping[str, str], aliases: Mapping[str, str]) -> dict[str, str]:
    """Return the functions that a user may call, and those beginning with `_` (mostly completions) that they name."""
    usable = {
        name: text for name, text in functions.items() if name not in _SHELL_HOOKS and not name.startswith("TRAP")
    }
    called = {name for name in usable if not name.startswith("_")}
    needed = called | _reach_functions([*(usable[name] for name in called), *aliases.values()], usable)
    return {name: text for name, text in usable.items() if name in needed}


def _reach_functions(texts: list[str], functions: Mapping[str, str]) -> set[str]:
    """Return the names of the functions that these texts name, directly or by the functions they name."""
    reached: set[str] = set()
    waiting = list(texts)
    while waiting:
        text = waiting.pop()
        named = functions.keys() & set(_WORD.findall(text))
        beginnings = tuple(_NAME_BEGINNING.findall(text))
        if beginnings:
            named |= {name for name in functions if name.startswith(beginnings)}
        new = named - reached
        reached |= new
        waiting += [functions[name] for name in new]
    return reached


def render_script(snapshot: ShellSnapshot, dump: ShellDump) -> bytes:
    """Return the whole file. Sourced, it returns 0 when all of it could be read."""
    body = [*dump.options, *(text.rstrip("\n") for text in dump.functions.values()), "return 0"]
    return "\n".join([_head(replace(snapshot, functions=tuple(dump.functions))), *body, ""]).encode(
        "utf-8", "surrogateescape"
    )


def render_failure(snapshot: ShellSnapshot) -> bytes:
    """Return the file of a failed startup, so that other processes of the session do not try it too."""
    return f"{_head(snapshot)}\nreturn 0\n".encode()


def _head(snapshot: ShellSnapshot) -> str:
    about = {
        "startup": snapshot.startup,
        "path": snapshot.path,
        "aliases": dict(snapshot.aliases),
        "functions": list(snapshot.functions),
        "failed": snapshot.failed,
    }
    return f"{_TITLE}\n# {json.dumps(about, sort_keys=True)}"


def read_snapshot(file: Path) -> ShellSnapshot | None:
    """Read the snapshot in a file; return None for a missing or unreadable one."""
    try:
        with open(file, encoding="ascii", errors="replace") as lines:
            title, head = lines.readline(100), lines.readline(_MAX_HEAD)
        about: Any = json.loads(head.removeprefix("# "))
    except (OSError, ValueError):
        return None
    if title != f"{_TITLE}\n" or not isinstance(about, dict):
        return None
    known = cast("dict[str, Any]", about)
    texts = [known.get(name) for name in ("startup", "path", "failed")]
    aliases = known.get("aliases")
    functions = known.get("functions")
    if not all(isinstance(text, str) for text in texts):
        return None
    if not isinstance(aliases, dict) or not isinstance(functions, list):
        return None
    startup, path, failed = cast("list[str]", texts)
    names = tuple(map(str, cast("list[Any]", functions)))
    return ShellSnapshot(file, startup, path, cast("dict[str, str]", aliases), names, failed)


def command_path(snapshot: ShellSnapshot, inherited: str) -> str:
    """Return the PATH of commands, from the startup's and the one of this process.

    If the startup adds no directory, the inherited order applies, because the user chose it. Otherwise directories that
    were only inherited (a virtual environment) come first, then the startup's. Relative entries are left out: they
    would depend on a command's directory.
    """
    theirs = snapshot.path.split(os.pathsep)
    ours = inherited.split(os.pathsep)
    entries = [*(one for one in ours if one not in theirs), *theirs] if set(theirs) - set(ours) else ours
    return absolute_entries(os.pathsep.join(entries))


def without_functions(dump: ShellDump, names: Sequence[str]) -> ShellDump:
    """Return the dump without these functions."""
    return replace(dump, functions={name: text for name, text in dump.functions.items() if name not in names})
