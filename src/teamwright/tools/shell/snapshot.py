"""The snapshot of a shell's startup: the parts that are kept, and the file with which commands start.

Functions, aliases, options and PATH of a dump (`dump.bash`, `dump.zsh`) are kept; variables are not. The file is a
script with a header that only this program reads: docs/reference/formats/shell-snapshots.md. Starts no shell.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.processes.program_environment import absolute_entries
from teamwright.shell_lines.command_words import word_set

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
        end = next((at for at in range(2, len(parts), 2) if not parts[at]), len(parts))
        aliases = dict(zip(parts[2:end:2], parts[3:end:2], strict=False))
        options, path, rest = _zsh_options(parts[0]), parts[1], parts[end + 1 : -2]
    else:
        options, path, aliases = _bash_options(parts[0], parts[1]), parts[2], _bash_aliases(parts[3])
        rest = parts[4:-2]
    functions = dict(zip(rest[::2], rest[1::2], strict=False))
    return ShellDump(options, path, _useful_aliases(aliases, functions), _needed_functions(functions, aliases))


def _bash_options(set_lines: str, shopt_lines: str) -> tuple[str, ...]:
    on = [line.removeprefix("set -o ") for line in set_lines.splitlines() if line.startswith("set -o ")]
    lines = [f"set -o {name}" for name in on if name in _BASH_OPTIONS]
    for line in shopt_lines.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] in _BASH_SHOPTS:
            lines.append(line)
    return tuple(lines)


def _bash_aliases(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:
        return {}
    found = (word.partition("=") for word in words if word not in {"alias", "--"})
    return {name: body for name, sign, body in found if sign}


def _zsh_options(text: str) -> tuple[str, ...]:
    names = [name for name in text.split() if not _DROPPED_ZSH_OPTIONS.fullmatch(name)]
    return (f"setopt {' '.join(names)}",) if names else ()


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
    aliases, functions = known.get("aliases"), known.get("functions")
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
    theirs, ours = snapshot.path.split(os.pathsep), inherited.split(os.pathsep)
    entries = [*(one for one in ours if one not in theirs), *theirs] if set(theirs) - set(ours) else ours
    return absolute_entries(os.pathsep.join(entries))


def without_functions(dump: ShellDump, names: Sequence[str]) -> ShellDump:
    """Return the dump without these functions."""
    return replace(dump, functions={name: text for name, text in dump.functions.items() if name not in names})
