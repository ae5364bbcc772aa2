"""Make the command line of a shell for one command, and follow the directory in which the command ends.

`shell_choice` chooses between plain bash and the user's shell with its startup. The user's aliases are expanded before
the verdict, and the expanded command runs: no shell expands them later. The working directory of an agent follows the
shell, and stays inside the allowed directories.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.tool import Workplace
from teamwright.processes.program_environment import find_program, safe_path
from teamwright.shell_lines.ambiguity import parser
from teamwright.shell_lines.expansion import is_locale, is_plain_locale
from teamwright.shell_lines.parse import MAX_BYTES
from teamwright.storage.files import read_plain
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT
from teamwright.tools.shell.shell_choice import ShellChoice, choose_shell, is_proven
from teamwright.tools.shell.startup import STARTUP_SHELLS, ShellStartup, bare_argv, plain_shell

if TYPE_CHECKING:
    from tree_sitter import Node


_MAX_PATH = 65_536
"""The longest name of a directory that is read, in bytes."""

_LOOKUP_COMMAND = re.compile(r"(type|which|whence|alias|command -[vV])( [\w./+:@-]+)*")
"""Commands that look up a word. The user's shell runs them with its aliases."""

_SHELL_VARIABLES = re.compile(r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*", re.DOTALL)
"""Variables that change a plain shell."""

_OPTION_VARIABLES = frozenset({"POSIXLY_CORRECT", "RIPGREP_CONFIG_PATH", "TAR_OPTIONS", "CDPATH", "GLOBIGNORE"})
"""Variables with which programs, or the shell itself, read other files than their words say."""

_BASH_READING = (
    "\\builtin shopt -u cdable_vars cdspell dotglob lastpipe nocaseglob nullglob 2>/dev/null\n"
    "\\builtin set +o noglob +o physical +o posix\n"
)
"""Options with which the rules read a line. The environment (`BASHOPTS`, `BASH_ENV`) may have set others."""


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


def expand_command(command: str, startup: ShellStartup | None, cwd: Path) -> str:
    """Return the command with the startup's aliases expanded; empty when nothing changes or they are unknown.

    A command that is proven has no aliases: it runs in plain bash.
    """
    snapshot = startup.snapshot if startup is not None else None
    if snapshot is None or not snapshot.aliases or _is_lookup(command) or is_proven(command, cwd):
        return ""
    means = expand_aliases(command, snapshot.aliases)
    return means if means != command else ""


def is_read_otherwise(command: str, startup: ShellStartup | None, cwd: Path) -> bool:
    """Return True when the user's shell runs the command and may read it in another way than the rules do."""
    if startup is None or _is_lookup(command):
        return False
    return choose_shell(expand_command(command, startup, cwd) or command, cwd, startup).is_read_otherwise


def shell_line(
    command: str,
    startup: ShellStartup | None,
    cwd: Path,
    env: Mapping[str, str],
    directories: Iterable[Path] = (),
    *,
    by_person: bool = False,
    hides_values: bool = False,
) -> ShellLine:
    """Return the shell line of the command, which is judged in this directory.

    A line of proven commands starts with a PATH and variables that lead to no file in the agent's `directories`, nor
    in another one that commands can change. `by_person`: a person typed it. It has no verdict, and the user's shell
    runs what is not proven to only read. `hides_values`: an unproven line gets no variable that may have a secret.
    """
    if not by_person:
        # The shell reads the line as its verdict did, which knows this process's variables. Settings may add
        # others, also those of a trusted repository. An encoding decides where a word ends.
        found = {name: value for name, value in env.items() if name not in _OPTION_VARIABLES}
        odd = [name for name, value in found.items() if is_locale(name) and not is_plain_locale(value)]
        env = {name: value for name, value in found.items() if name not in odd or value == os.environ.get(name)}
    text = expand_command(command, startup, cwd) or command
    own_paths = ""
    if not by_person:
        if is_proven(text, cwd):
            env = _proven_environment(text, cwd, {**env, **_home_of_verdict(env)}, directories)
        else:
            env = _readable_variables(env) if hides_values else env
            own_paths = _own_paths(text, cwd, env)
    if startup is None:
        return ShellLine((plain_shell(),), own_paths, command, env, wrapped=bool(own_paths))
    snapshot = startup.snapshot
    shell = startup.shell
    asks = _is_lookup(command)
    choice = ShellChoice(is_proven(command, cwd)) if by_person else choose_shell(text, cwd, startup)
    if choice.is_plain and not asks:
        env = {name: env[name] for name in env if not _SHELL_VARIABLES.fullmatch(name)}
        return ShellLine((plain_shell(),), own_paths, text, env, wrapped=bool(own_paths))
    if shell.kind not in STARTUP_SHELLS:
        return ShellLine(bare_argv(shell), own_paths, text, env, wrapped=bool(own_paths))
    begins = f"PATH={shlex.quote(env.get('PATH', ''))}\n" if shell.kind == "zsh" else ""  # /etc/zshenv is always read
    if snapshot is not None:
        begins += f"\\builtin . {shlex.quote(str(snapshot.file))} 2>/dev/null\n"
    if asks and snapshot is not None:
        begins += "".join(f"{line}\n" for line in _aliases(snapshot.aliases, shell.kind))
    if not by_person:
        begins += _BASH_READING if shell.kind == "bash" else ""
        begins += f"\\builtin unset -f -- {shlex.join(choice.without)} 2>/dev/null\n" if choice.without else ""
    return ShellLine(bare_argv(shell), begins + own_paths, text, env, wrapped=True, builtin="\\builtin ")


def _home_of_verdict(env: Mapping[str, str]) -> dict[str, str]:
    """Return the home directory of `~` in a verdict, if the line has one."""
    return {"HOME": os.environ["HOME"]} if "HOME" in env and "HOME" in os.environ else {}


def _own_paths(command: str, cwd: Path, env: Mapping[str, str]) -> str:
    """Return functions for a line with other commands, by which a proven program such as git starts with the safe PATH.

    Its configuration may name a program that only the project has.
    """
    path = env.get("PATH", os.defpath)
    if (safe := safe_path(path)) == path:
        return ""
    from teamwright.permissions.project_programs import configured_programs  # loading the grammar is expensive

    found = {name: find_program(name, path) for name in configured_programs(command, cwd)}
    start = '{name}() ( PATH={path}; exec {program} "$@" )\n'
    return "".join(
        start.format(name=name, path=shlex.quote(safe), program=shlex.quote(program))
        for name, program in found.items()
        if program
    )


def _proven_environment(
    command: str, cwd: Path, env: Mapping[str, str], directories: Iterable[Path]
) -> Mapping[str, str]:
    from teamwright.permissions.project_programs import proven_environment  # loading the grammar is expensive

    return proven_environment(command, cwd, env, directories)


def _readable_variables(env: Mapping[str, str]) -> Mapping[str, str]:
    from teamwright.permissions.variable_assignments import readable_variables  # loading the grammar is expensive

    return {**readable_variables(env), **COMMAND_ENVIRONMENT}


def _is_lookup(command: str) -> bool:
    return _LOOKUP_COMMAND.fullmatch(command.strip()) is not None


def track_directory(line: ShellLine, directory_file: Path) -> ShellLine:
    """Return the line with a report of the shell's last directory, written to this file."""
    # A trap writes to a file: output cannot imitate it, and `exit` in the command runs it too.
    report = f"{line.builtin}pwd -P >| {shlex.quote(str(directory_file))} 2>/dev/null"
    trap = f"{line.builtin}trap {shlex.quote(report)} EXIT\n"
    return replace(line, begins=line.begins + trap, wrapped=True)


def _aliases(aliases: Mapping[str, str], kind: str) -> list[str]:
    known = [f"{name}={body}" for name, body in aliases.items() if name not in {"type", "which", "command", "builtin"}]
    switch = ["\\builtin shopt -s expand_aliases"] if kind == "bash" else []
    return [*switch, *(f"\\builtin alias -- {shlex.quote(one)}" for one in known)]


def follow_directory(workplace: Workplace, before: Path, ended_in: Path) -> str:
    """Set the working directory to the shell's last one if it is allowed. Return the sentence about it."""
    try:
        # The command can write this file too: a pipe, a device or endless text must not stop this process.
        content = read_plain(ended_in, _MAX_PATH)
    except OSError:  # the shell was ended, replaced by `exec`, or its directory is gone
        return ""
    if b"\0" in content:
        return ""
    after = Path(os.fsdecode(content).rstrip("\n"))
    if not after.is_absolute() or after == Path(os.path.realpath(before)):
        return ""
    if not workplace.is_allowed(after):
        return f"[{after} is outside the allowed directories: the next command starts in {workplace.cwd} again]"
    workplace.change_directory(after)
    return f"[directory is now {after}]"


def allowed_directory(workplace: Workplace) -> Path:
    """Return the directory of the next command: the last one's, or an allowed directory when that is gone."""
    if workplace.cwd.is_dir():
        return workplace.cwd
    return next((root for root in workplace.directories() if root.is_dir()), Path(os.sep))


def ensure_directory(workplace: Workplace) -> str:
    """Continue in an allowed directory when the present one is gone. Return the sentence about it."""
    gone = workplace.cwd
    workplace.change_directory(allowed_directory(workplace))
    return "" if workplace.cwd == gone else f"[{gone} is gone: the command ran in {workplace.cwd}]"


_MAX_ALIASES = 500
"""The most alias expansions in one line."""

_MAX_DEPTH = 50


def expand_aliases(text: str, aliases: Mapping[str, str]) -> str:
    """Return the line with each alias in command position expanded, repeatedly like the shell does. Never raises.

    A line that would grow beyond the limits of a command is returned unchanged.
    """
    if not aliases or len(text) > MAX_BYTES:
        return text
    known = {"time": "time ", **aliases}  # a keyword that a command follows
    content = text.encode("utf-8", "surrogateescape")
    try:
        return _expand(content, known, count(), 0).decode("utf-8", "surrogateescape")
    except _TooManyAliases:
        return text


class _TooManyAliases(Exception):
    """Aliases expand to aliases without end."""


def _expand(content: bytes, aliases: Mapping[str, str], counter: Iterator[int], depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise _TooManyAliases
    parts: list[bytes] = []
    at = 0
    for word, name in _find_alias_words(content, aliases):
        if next(counter) > _MAX_ALIASES:
            raise _TooManyAliases
        others = {other: body for other, body in aliases.items() if other != name}
        body = aliases[name].encode("utf-8", "surrogateescape")
        parts += [content[at : word.start_byte], _expand(body, others, counter, depth + 1)]
        at = word.end_byte
    whole = b"".join([*parts, content[at:]])
    if len(whole) > MAX_BYTES:
        raise _TooManyAliases
    return whole


def _find_alias_words(content: bytes, aliases: Mapping[str, str]) -> Iterator[tuple[Node, str]]:
    """Return the words that are aliases, with the alias name, in the order of the line."""
    for node in _walk_nodes(parser().parse(content).root_node):
        if node.type != "command_name" or node.child_count != 1:
            continue
        word: Node | None = node.children[0]
        while word is not None and word.type in {"word", "number"}:
            name = (word.text or b"").decode("utf-8", "surrogateescape")
            if name not in aliases:
                break
            yield word, name
            # After an alias that ends with a blank, the next word is an alias candidate too.
            following = node.next_sibling if word is node.children[0] else word.next_sibling
            word = following if aliases[name].endswith((" ", "\t")) else None


def _walk_nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)
