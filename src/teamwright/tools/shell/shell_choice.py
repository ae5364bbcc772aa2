"""The choice between plain bash and the user's shell for a command line.

The rules read bash. The user's shell runs a line only for the sake of what plain bash does not have.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from teamwright.shell_lines.command_words import word_set
from teamwright.tools.shell.startup import ShellStartup

_ZSH_BUILTINS = word_set(
    "print noglob nocorrect setopt unsetopt autoload zmodload whence where functions vared zstyle bindkey emulate"
    " zparseopts sched zmv"
)
"""Commands of zsh that bash does not have."""


class ShellChoice(Struct, frozen=True):
    """The shell for a line.

    `is_plain`: plain bash, without the startup. `is_read_otherwise`: the user's shell may read the line in another way
    than the rules do, so only a person can allow it. `without` are the functions of the user that the line must not
    call, because its verdict is about the programs of these names.
    """

    is_plain: bool
    is_read_otherwise: bool = False
    without: tuple[str, ...] = ()


_PLAIN = ShellChoice(True)


def is_proven(command: str, cwd: Path) -> bool:
    """Return True when a mode may allow the line without a rule. It runs in the shell that the rules read."""
    from teamwright.permissions.line_sandbox_policy import find_programs  # loading the grammar is expensive

    return find_programs(command, cwd).is_plain


def choose_shell(command: str, cwd: Path, startup: ShellStartup | None) -> ShellChoice:
    """Return the choice for a command, with its aliases expanded."""
    if startup is None:
        return _PLAIN
    from teamwright.permissions.line_sandbox_policy import find_programs  # loading the grammar is expensive

    found = find_programs(command, cwd)
    if found.is_plain:
        return _PLAIN
    without = tuple(sorted(found.proven))
    if startup.shell.kind == "bash" or found.is_alike:
        return ShellChoice(False, without=without)
    functions = startup.snapshot.functions if startup.snapshot is not None else ()
    own = {*functions, *(_ZSH_BUILTINS if startup.shell.kind == "zsh" else ())}
    return ShellChoice(False, True, without) if own & found.others else _PLAIN
