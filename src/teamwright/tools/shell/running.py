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
from teamwright.tools.shell.startup import Startup, bare
from teamwright.tools.shell.which import plain_shell

_LOOKS_UP = re.compile(r"(type|which|whence|alias|command -[vV])( [\w./+:@-]+)*")
"""Asks what a word stands for: answered by the user's shell, with the aliases known to it."""

_NOT_BASH = re.compile(r">!|&[!|]|(?<![^\s;&|(`])=\w|(^|[;&|(){}!`\n]|\b(do|then|else|time))\s*(-|repeat)\s")
"""What zsh reads in another way than the grammar that commands are judged by: such a line runs in bash."""

_ALTERS = re.compile(r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*", re.DOTALL)
"""Variables by which a plain shell would not be plain."""


@dataclass(frozen=True, slots=True)
class Line:
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


def stands_for(command: str, startup: Startup | None, *, proven: bool) -> str:
    """The command with the aliases of the startup in place; empty where nothing changes."""
    snapshot = startup.snapshot if startup is not None else None
    if snapshot is None or not snapshot.aliases or proven or _LOOKS_UP.fullmatch(command.strip()):
        return ""
    from teamwright.tools.shell.aliases import expanded  # the grammar is the dearest thing to load

    means = expanded(command, snapshot.aliases)
    return means if means != command else ""


def line_of(command: str, startup: Startup | None, env: Mapping[str, str], *, proven: bool) -> Line:
    """How the command is run. `proven`: it certainly only reads."""
    if startup is None:
        return Line((plain_shell(),), "", command, env)
    snapshot, shell = startup.snapshot, startup.shell
    asks = _LOOKS_UP.fullmatch(command.strip()) is not None
    text = stands_for(command, startup, proven=proven) or command
    if (proven and not asks) or (shell.kind == "zsh" and _NOT_BASH.search(text)):
        return Line((plain_shell(),), "", text, {name: env[name] for name in env if not _ALTERS.fullmatch(name)})
    if snapshot is None:
        return Line(bare(shell), "", command, env)
    begins = f"PATH={shlex.quote(env.get('PATH', ''))}\n" if shell.kind == "zsh" else ""  # /etc/zshenv is always read
    begins += f"\\builtin . {shlex.quote(str(snapshot.file))} 2>/dev/null\n"
    if asks:
        begins += "".join(f"{line}\n" for line in _aliases(snapshot.aliases, shell.kind))
    return Line(bare(shell), begins, text, env, wrapped=True, builtin="\\builtin ")


def followed(line: Line, ended_in: Path) -> Line:
    """The line, which tells in this file where the shell was at its end."""
    # By a trap, in a file: no output can be taken for it, and `exit` in the command passes it too.
    told = f"{line.builtin}pwd -P >| {shlex.quote(str(ended_in))} 2>/dev/null"
    trap = f"{line.builtin}trap {shlex.quote(told)} EXIT\n"
    return replace(line, begins=line.begins + trap, wrapped=True)


def _aliases(aliases: Mapping[str, str], kind: str) -> list[str]:
    known = [f"{name}={body}" for name, body in aliases.items() if name not in {"type", "which", "command", "builtin"}]
    switch = ["\\builtin shopt -s expand_aliases"] if kind == "bash" else []
    return [*switch, *(f"\\builtin alias -- {shlex.quote(one)}" for one in known)]
