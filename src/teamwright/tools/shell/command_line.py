"""How one command is put to a shell: which shell, what it begins with, and how it tells where it ended.

A command that is proven to only read runs in plain bash, without functions and aliases: what was proven is what runs.
Every other one runs in the user's shell, after its startup; aliases are put in place before (`aliases`),
so that the shell runs the very text that was decided on. Starts nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from teamwright.protocol.values import dataclass
from teamwright.tools.shell.startup import ShellStartup, bare_argv
from teamwright.tools.shell.user_shell import plain_shell

_LOOKUP_COMMAND = re.compile(r"(type|which|whence|alias|command -[vV])( [\w./+:@-]+)*")
"""Asks what a word stands for: answered by the user's shell, with the aliases known to it."""

_ZSH_ONLY = re.compile(r">!|&[!|]|(?<![^\s;&|(`])=\w|(^|[;&|(){}!`\n]|\b(do|then|else|time))\s*(-|repeat)\s")
"""What zsh reads in another way than the grammar that commands are judged by: such a line runs in bash."""

_SHELL_VARIABLES = re.compile(r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*", re.DOTALL)
"""Variables by which a plain shell would not be plain."""


@dataclass(frozen=True, slots=True)
class ShellLine:
    """A command as a shell gets it: program and flags, what it begins with, the text, its whole environment.

    `wrapped`: the text is evaluated in a script of ours, not given as it is.
    """

    shell: tuple[str, ...]
    begins: str
    text: str
    env: Mapping[str, str]
    wrapped: bool = False
    builtin: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        """What to start."""
        if not self.wrapped:
            return (*self.shell, "-c", self.text)
        # `eval` keeps a broken command from swallowing what stands around it
        return (*self.shell, "-c", f"{self.begins}{self.builtin}eval {shlex.quote(self.text)}")


def expand_command(command: str, startup: ShellStartup | None, *, proven: bool) -> str:
    """The command with the aliases of the startup in place; empty where nothing changes."""
    snapshot = startup.snapshot if startup is not None else None
    if snapshot is None or not snapshot.aliases or proven or _LOOKUP_COMMAND.fullmatch(command.strip()):
        return ""
    from teamwright.tools.shell.aliases import expand_aliases  # the grammar is the dearest thing to load

    means = expand_aliases(command, snapshot.aliases)
    return means if means != command else ""


def shell_line(command: str, startup: ShellStartup | None, env: Mapping[str, str], *, proven: bool) -> ShellLine:
    """How the command is run. `proven`: it certainly only reads."""
    if startup is None:
        return ShellLine((plain_shell(),), "", command, env)
    snapshot, shell = startup.snapshot, startup.shell
    asks = _LOOKUP_COMMAND.fullmatch(command.strip()) is not None
    text = expand_command(command, startup, proven=proven) or command
    if (proven and not asks) or (shell.kind == "zsh" and _ZSH_ONLY.search(text)):
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


def track_directory(line: ShellLine, directory_file: Path) -> ShellLine:
    """The line, which tells in this file where the shell was at its end."""
    # By a trap, in a file: no output can be taken for it, and `exit` in the command passes it too.
    told = f"{line.builtin}pwd -P >| {shlex.quote(str(directory_file))} 2>/dev/null"
    trap = f"{line.builtin}trap {shlex.quote(told)} EXIT\n"
    return replace(line, begins=line.begins + trap, wrapped=True)


def _aliases(aliases: Mapping[str, str], kind: str) -> list[str]:
    known = [f"{name}={body}" for name, body in aliases.items() if name not in {"type", "which", "command", "builtin"}]
    switch = ["\\builtin shopt -s expand_aliases"] if kind == "bash" else []
    return [*switch, *(f"\\builtin alias -- {shlex.quote(one)}" for one in known)]
