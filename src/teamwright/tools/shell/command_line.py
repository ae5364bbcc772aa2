"""The command line of a shell for one command: the shell, its startup, and the report of its last directory.

A command that is proven to be read-only runs in plain bash, without functions and aliases, so that the proven command
is the one that runs. Any other runs in the user's shell with its startup; aliases are expanded before
(`alias_expansion`), so that the shell runs the text of the verdict. Starts no process.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.tools.shell.startup import ShellStartup, bare_argv, plain_shell

_LOOKUP_COMMAND = re.compile(r"(type|which|whence|alias|command -[vV])( [\w./+:@-]+)*")
"""Commands that look up a word. The user's shell runs them with its aliases."""

_SHELL_VARIABLES = re.compile(r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*", re.DOTALL)
"""Variables that change a plain shell."""


class ShellLine(Struct, frozen=True):
    """A command for a shell: program and flags, its first lines, the text, and its whole environment.

    `wrapped`: the text is evaluated inside a script instead of being passed unchanged.
    """

    shell: tuple[str, ...]
    begins: str
    text: str
    env: Mapping[str, str]
    wrapped: bool = False
    builtin: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and arguments to start."""
        if not self.wrapped:
            return (*self.shell, "-c", self.text)
        # `eval` keeps a syntax error from affecting the lines around it.
        return (*self.shell, "-c", f"{self.begins}{self.builtin}eval {shlex.quote(self.text)}")


def expand_command(command: str, startup: ShellStartup | None, *, proven: bool) -> str:
    """Return the command with the startup's aliases expanded; empty when nothing changes."""
    snapshot = startup.snapshot if startup is not None else None
    if snapshot is None or not snapshot.aliases or proven or _LOOKUP_COMMAND.fullmatch(command.strip()):
        return ""
    from teamwright.tools.shell.alias_expansion import expand_aliases  # loading the grammar is expensive

    means = expand_aliases(command, snapshot.aliases)
    return means if means != command else ""


def shell_line(command: str, startup: ShellStartup | None, env: Mapping[str, str], *, proven: bool) -> ShellLine:
    """Return the shell line of the command. `proven`: it is proven to be read-only."""
    if startup is None:
        return ShellLine((plain_shell(),), "", command, env)
    snapshot, shell = startup.snapshot, startup.shell
    asks = _LOOKUP_COMMAND.fullmatch(command.strip()) is not None
    text = expand_command(command, startup, proven=proven) or command
    if (proven and not asks) or (shell.kind == "zsh" and _runs_in_bash(text)):
        return ShellLine(
            (plain_shell(),), "", text, {name: env[name] for name in env if not _SHELL_VARIABLES.fullmatch(name)}
        )
    if snapshot is None:
        return ShellLine(bare_argv(shell), "", command, env)
    begins = f"PATH={shlex.quote(env.get('PATH', ''))}\n" if shell.kind == "zsh" else ""  # /etc/zshenv is always read
    begins += f"\\builtin . {shlex.quote(str(snapshot.file))} 2>/dev/null\n"
    if asks:
        begins += "".join(f"{line}\n" for line in _aliases(snapshot.aliases, shell.kind))
    return ShellLine(bare_argv(shell), begins, text, env, wrapped=True, builtin="\\builtin ")


def runs_in_plain_bash(command: str, cwd: Path) -> bool:
    """Return True when a mode may allow the line without a rule: it runs in the shell that the rules read."""
    from teamwright.permissions import plain_shell_lines  # loading the grammar is expensive

    return plain_shell_lines.runs_in_plain_bash(command, cwd)


def _runs_in_bash(text: str) -> bool:
    from teamwright.permissions.shell.ambiguity import is_read_by_zsh_alone

    return is_read_by_zsh_alone(text)


def track_directory(line: ShellLine, directory_file: Path) -> ShellLine:
    """Return the line with a report of the shell's last directory, written to this file."""
    # A trap writes to a file: output cannot imitate it, and `exit` in the command runs it too.
    told = f"{line.builtin}pwd -P >| {shlex.quote(str(directory_file))} 2>/dev/null"
    trap = f"{line.builtin}trap {shlex.quote(told)} EXIT\n"
    return replace(line, begins=line.begins + trap, wrapped=True)


def _aliases(aliases: Mapping[str, str], kind: str) -> list[str]:
    known = [f"{name}={body}" for name, body in aliases.items() if name not in {"type", "which", "command", "builtin"}]
    switch = ["\\builtin shopt -s expand_aliases"] if kind == "bash" else []
    return [*switch, *(f"\\builtin alias -- {shlex.quote(one)}" for one in known)]
