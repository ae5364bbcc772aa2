"""Programs that a line would find in a directory which commands can change, because the PATH names it, and the PATH
with which a proven line runs.

A known name proves nothing about such a program: the project, or an accepted edit, put it there. The helpers of a known
program prove nothing either, and the line does not name them. So a line that runs only because it is proven has a PATH
without such directories. Where that would change what the line says, it asks. The verdict and the run ask one function
(`find_proven_path`). Depends on the facts about commands.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.permissions.changed_files import find_changes
from teamwright.permissions.command_facts import CommandFacts, collect_facts
from teamwright.permissions.decision_context import DecisionContext
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.permissions.verdict import Access
from teamwright.processes.program_environment import (
    changeable_directories,
    is_changeable,
    proven_variables,
    safe_entries,
    safe_path,
)
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import ParsedLine, ShellCommand
from teamwright.shell_lines.step_limit import find_bounded, found_once, spend_steps
from teamwright.storage.real_paths import real_path

_STARTS_NOTHING = word_set(
    "cat ls head tail wc uniq cut tr nl tac rev fold fmt paste comm expand unexpand od xxd hexdump stat du df"
    " basename dirname realpath readlink pwd whoami id groups uname date hostname nproc uptime arch sleep seq true"
    " false test [ [[ : echo printf cd pushd popd type which command printenv grep tree cmp md5sum sha1sum sha256sum"
    " sha512sum cksum sum set exit break continue return shift read mkdir touch rmdir python python3 node ruby perl"
    " bash curl java gcc cmake"
)
"""Programs that start no other one by its name, with the words that are proven. One that is a script here may."""

_BUILTINS = word_set(
    "pwd true false test [ [[ : echo printf cd pushd popd type command set exit break continue return shift read"
)
_SCRIPTS_OF_THE_SYSTEM = frozenset({"which"})
"""Programs that are scripts of shell builtins on some systems."""

CONFIGURED = frozenset({"git"})
"""Programs whose configuration names other ones. Beside other commands the shell gives them a PATH of their own."""

_LOOKS_UP = frozenset({"type", "which", "command"})
_PACKERS = word_set("gzip gunzip bzip2 bunzip2 xz unxz lzma lzip lzop zstd unzstd compress uncompress brotli lz4")
_HELPERS = {
    "git": word_set("git sh bash less more cat ssh gpg gpg2 gpgsm ssh-keygen perl vi vim emacs scalar"),
    "egrep": word_set("grep egrep sh"),
    "fgrep": word_set("grep fgrep sh"),
    "zcat": word_set("sh gzip zcat"),
    "tar": word_set("sh") | _PACKERS,
    "rg": _PACKERS,
    "file": _PACKERS,
    "diff": word_set("pr sh"),
    **dict.fromkeys(("sort", "awk", "gawk", "mawk", "nawk", "sed", "find", "jq", "strings", "unzip"), word_set("sh")),
}
"""The programs that proven programs start by name, where that is a short list; those of git begin with `git-` too."""


class ProvenPath(Struct, frozen=True):
    """The PATH of a line that runs only because it is proven.

    `programs` are the paths of the programs that the project has for its commands, in their order; empty for another
    program. `doubts` are sentences, for each command, why its proof does not hold with this PATH; empty for none.
    """

    path: str
    programs: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """True when the line may run with this PATH because it is proven."""
        return not any(self.programs) and not any(self.doubts)


def collect_line_facts(context: DecisionContext, access: Access, parsed: ParsedLine) -> list[CommandFacts]:
    """Return the facts about each command of the line. A program of the project has no proof and accepts no edit."""
    facts = [collect_facts(context, command) for command in parsed.commands]
    if not access.search_path:
        return facts
    directories = tuple(dict.fromkeys((*context.directories, *access.changeable, *changeable_directories())))
    found = find_proven_path(parsed, access.search_path, directories)
    if found.holds:
        return facts
    return [_without_proof(*each) for each in zip(facts, found.programs, found.doubts, strict=True)]


def _without_proof(fact: CommandFacts, program: str, doubt: str) -> CommandFacts:
    if not (program or doubt):
        return fact
    command = replace(fact.command, role="unsure") if program and fact.command.role == "wrap" else fact.command
    return replace(fact, command=command, reads=None, changes=None, project_program=program, path_doubt=doubt)


def proven_environment(command: str, cwd: Path, env: Mapping[str, str], directories: Iterable[Path]) -> dict[str, str]:
    """Return the environment of a line of proven commands, which no mode allows for another reason.

    A person allowed a line with a program of the project: it keeps its environment.
    """
    known = tuple(dict.fromkeys((*(real_path(one) for one in directories), *changeable_directories())))
    path = env.get("PATH", os.defpath)
    safe = ProvenPath(safe_path(path, known))
    found = find_bounded(lambda: find_proven_path(parse_command(command, cwd), path, known), otherwise=safe)
    if not found.holds:
        return dict(env)
    cleaned = proven_variables(env, known)
    return {**cleaned, "PATH": found.path} if "PATH" in env else cleaned


def configured_programs(command: str, cwd: Path) -> list[str]:
    """Return the programs of the line whose configuration names other ones, and that it only starts to read."""
    return find_bounded(lambda: _configured_programs(command, cwd), otherwise=[*CONFIGURED])


def _configured_programs(command: str, cwd: Path) -> list[str]:
    found = [one for one in parse_command(command, cwd).commands if one.role in {"run", "unsure"}]
    names = dict.fromkeys(one.name for one in found if one.name in CONFIGURED)
    return [name for name in names if _is_all_proven(one for one in found if one.name == name)]


def find_proven_path(parsed: ParsedLine, path: str, directories: tuple[str, ...]) -> ProvenPath:
    """Return the PATH of the line for its proofs. `directories` are those in which commands may create files."""
    entries = _search_path(path, directories)
    if not entries:
        return ProvenPath(path)
    commands = parsed.commands
    changes = [find_changes(command) for command in commands]
    written = [file for change in changes if change is not None for file in change.writes]
    programs = tuple(_project_program(command, entries, written, directories) for command in commands)
    safe = safe_path(path, directories)
    if not _is_all_proven(commands):
        is_wrapped = any(command.role == "wrap" for command in commands)
        doubts = tuple(_doubt_beside_others(command, entries, is_wrapped) for command in commands)
        return ProvenPath(path, programs, doubts)
    if not _depends_on_path(parsed, path, safe):
        return ProvenPath(safe, programs, ("",) * len(programs))
    return ProvenPath(path, programs, tuple(_doubt_with_whole_path(command, path) for command in commands))


def _is_all_proven(commands: Iterable[ShellCommand]) -> bool:
    run = [command for command in commands if command.role in {"run", "unsure"}]
    return all(prove_read_only(command) is not None or find_changes(command) is not None for command in run)


def _doubt_beside_others(command: ShellCommand, entries: Sequence[tuple[str, bool]], is_wrapped: bool) -> str:
    """Return why a command is not proven in a line whose other commands need the whole PATH."""
    name = os.path.basename(command.name or "")
    if command.role not in {"run", "unsure"} or name in _STARTS_NOTHING:
        return ""
    if name in CONFIGURED and (is_wrapped or command.name != name):
        return f"{name} may start a program of the project that its configuration names, beside the other commands."
    helpers = _HELPERS.get(name)
    for entry in (entry for entry, is_projects in entries if is_projects):
        for helper in _names_of_programs(entry) if os.path.isabs(entry) else ("…",):
            if helpers is None or helper in helpers or (name == "git" and helper.startswith("git-")):
                return f"{name} may start {os.path.join(entry, helper)}, a program of the project."
    return ""


def _names_of_programs(directory: str) -> list[str]:
    names = found_once(("names of programs", directory), lambda: _list_names(directory))
    spend_steps(len(names))
    return names


def _list_names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _depends_on_path(parsed: ParsedLine, path: str, safe: str) -> bool:
    """Return True when the line would name or print something else with the safe PATH."""
    if "PATH" in parsed.variables_read:
        return True
    return any(_find(name, path) != _find(name, safe) for name in _looked_up(parsed.commands))


def _looked_up(commands: Iterable[ShellCommand]) -> Iterator[str]:
    for command in commands:
        words = [word for word in command.words if word is not None and "/" not in word]
        if command.name in _LOOKS_UP or words[:2] == ["printenv", "PATH"]:
            yield from (word for word in words[1:] if not word.startswith("-"))
        if words and command.name not in _BUILTINS:
            yield words[0]


def _find(name: str, path: str) -> str:
    return shutil.which(name, path=path) or ""


def _doubt_with_whole_path(command: ShellCommand, path: str) -> str:
    """Return why a command is not proven with the whole PATH, which the line needs for what it prints."""
    name = os.path.basename(command.name or "")
    if command.role not in {"run", "unsure"} or name in _BUILTINS:
        return ""
    if name in _STARTS_NOTHING and (name in _SCRIPTS_OF_THE_SYSTEM or not _is_script(_find(name, path))):
        return ""
    return f"{name} may start programs of the project, because the PATH names its directory."


def _is_script(file: str) -> bool:
    try:
        with open(file, "rb") as content:
            return content.read(2) == b"#!"
    except OSError:
        return False


def _search_path(path: str, directories: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """Return the directories of the PATH, each with whether commands can change it or the target of a link in it; empty
    when they can change none.

    An entry that is not absolute names a directory below any directory that the line is in.
    """
    safe = frozenset(safe_entries(path, directories))
    entries = tuple((entry, inside or entry not in safe) for entry, inside in _entries(path, directories))
    return entries if path and any(inside for _, inside in entries) else ()


@lru_cache(maxsize=32)
def _entries(path: str, directories: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    return tuple((entry, is_changeable(entry, directories)) for entry in path.split(os.pathsep))


def _is_inside(path: str, directories: Iterable[str]) -> bool:
    return f"{path}/".startswith(tuple(f"{one.rstrip('/')}/" for one in directories))


def _leads_in(found: str, directories: tuple[str, ...]) -> bool:
    """Return True for a link in a person's own directory of programs to a file that commands can change."""
    outside = not is_changeable(os.path.dirname(found), directories)
    return outside and os.path.lexists(found) and is_changeable(found, directories)


def _project_program(
    command: ShellCommand, entries: Sequence[tuple[str, bool]], written: Sequence[Path], directories: tuple[str, ...]
) -> str:
    """Return the path of the first program of this name on the PATH when it is the project's, or the line makes it so;
    empty for another program.
    """
    name = command.name
    if name is None or "/" in name:
        return ""
    for entry, is_projects in entries:
        found = os.path.join(entry, name)
        if is_projects and (_may_be_written(entry, written) or _is_own(found, name) or _leads_in(found, directories)):
            return found
        if not is_projects and os.access(found, os.X_OK):
            return ""
    return ""


def _may_be_written(entry: str, written: Iterable[Path]) -> bool:
    real = real_path(entry)
    paths = map(real_path, written)
    return any(_is_inside(path, [real]) or _is_inside(real, [path]) for path in paths)


def _is_own(found: str, name: str) -> bool:
    """Return True when the file exists, and is no link to the program of the same name elsewhere.

    In a virtual environment `python` is such a link. An entry that is not absolute has any program.
    """
    if not os.path.isabs(found):
        return True
    real = os.path.realpath(found)
    directory = os.path.dirname(os.path.realpath(os.path.dirname(found)))
    linked = not _is_inside(real, [directory]) and os.path.basename(real).startswith(name)
    return os.path.lexists(found) and not linked
