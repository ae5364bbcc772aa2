"""The files of a repository that its hooks, servers, status lines, checks, skills and git settings would run.

The parser of shell lines is loaded with the first line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from teamwright.config.project_mcp_file import command_of
from teamwright.git.program_settings import (
    UnclearSettings,
    find_git_code,
    list_settings,
    person_environment,
)
from teamwright.hooks.hook_definitions import HookSpec
from teamwright.permissions.executed_files import RunFiles, merge_run_files
from teamwright.processes.mentioned_files import named_code

_PROJECT = re.compile(r"\$\{?(CLAUDE_PROJECT_DIR|TEAMWRIGHT_PROJECT_DIR|PWD)\b(?::?-[^}]*)?\}?")


_DEFAULT = re.compile(r"\$\{\w+:?-([^}]*)\}")


_BETWEEN = re.compile(r"[\s;&|()<>`=]+")


_WRITTEN = re.compile(r">{1,2}\|?\s*[^\s;&|<>()]+")
"""A file that the shell writes."""


_FILLED_IN = re.compile(r"\$\{?\w*|[{}]")
"""The pattern of a text that is unknown before the command runs."""


def line_files(root: Path, line: str, base: Path | None = None) -> RunFiles:
    """Return the files of the repository that a shell line in `base` would run or names, by default at the root."""
    if not line.strip():
        return RunFiles()
    from teamwright.permissions.executed_file_search import find_run_files

    found = find_run_files(line, root, base)
    if not found.unknown:
        return found
    read = _WRITTEN.sub(" ", line)
    named = frozenset(path for path in _named_paths(root, read, base) if os.path.isfile(path))
    return merge_run_files([found, RunFiles(files=named)])


def hook_files(root: Path, hook: HookSpec) -> RunFiles:
    """Return the files of the repository that a hook would run; none for an action without a command."""
    if hook.function is not None or not hook.command:
        return RunFiles()
    found = line_files(root, hook.command_line)
    if hook.arguments is None:
        is_other_shell = hook.shell == "powershell"
        return replace(found, unknown="PowerShell reads it", is_of_project=True) if is_other_shell else found
    from teamwright.permissions.executed_file_search import find_program_files

    direct = find_program_files((hook.command, *hook.arguments), root)
    return merge_run_files([direct, replace(found, unknown="", is_of_project=False)])


def server_files(root: Path, entry: object) -> RunFiles:
    """Return the files of the repository that the entry of an MCP server would run or names."""
    fields = cast("Mapping[str, Any]", entry) if isinstance(entry, Mapping) else dict[str, Any]()
    place = fields.get("cwd")
    env = fields.get("env")
    args = fields.get("args")
    bases = [root, root / place] if isinstance(place, str) else [root]
    words = [fields.get("command"), *(cast("list[Any]", args) if isinstance(args, list) else [])]
    argv = [word for word in words if isinstance(word, str)]
    values = cast("Mapping[str, Any]", env).values() if isinstance(env, Mapping) else ()
    text = " ".join([command_of(fields), *(value for value in values if isinstance(value, str))])
    named = frozenset(path for base in bases for path in _named_paths(root, text, base) if os.path.isfile(path))
    if not argv:
        return RunFiles(files=named)
    from teamwright.permissions.executed_file_search import find_program_files

    found = [find_program_files(argv, root, base) for base in bases]
    found += [line_files(root, argv[0], base) for base in bases if len(argv) == 1]
    return merge_run_files([*found, RunFiles(files=named)])


def skill_files(root: Path, texts: Iterable[str]) -> RunFiles:
    """Return the files of the repository that the shell lines of these skills and commands would run."""
    from teamwright.skills.skill_definition import parse_head, shell_lines

    lines = [line for text in texts for line in shell_lines(parse_head(text).body)]
    return merge_run_files(line_files(root, re.sub(r"\$(?:ARGUMENTS|\d)", "x", line)) for line in lines)


def git_files(root: Path, name: str) -> list[Path]:
    """Return the files and directories of the work tree that the git settings of this name make git run."""
    try:
        settings = list_settings(root, person_environment(os.environ))
    except UnclearSettings:
        return []
    values = (one.value for one in settings if one.key.lower() == name.lower())
    return [path for value in values for path in named_code(value, root)]


def git_code_files(root: Path) -> RunFiles:
    """Return the files of the work tree that git runs or reads as settings, by the repository's and the person's
    settings. Trust does not matter: the person's own git obeys them.
    """
    found = find_git_code(root, person_environment(os.environ))
    named = {path for value in found.commands for path in named_code(value, root)}
    files = {path for path in named if not path.is_dir()}
    programs = (value.split()[0].lstrip("!") for value in found.commands if value.split())
    files |= {*found.files, *(path for name in programs if "/" in name for path in named_files(root, name))}
    return RunFiles(files=frozenset(files), trees=frozenset({*found.hooks, *(named - files)}))


def named_files(root: Path, line: str) -> set[Path]:
    """Return the paths that a line names, also missing ones, but for directories."""
    return {path for path in _named_paths(root, line) if path != root and not os.path.isdir(path)}


def passes_data_on(line: str) -> bool:
    """Return True when a program of the line may get what another one read: through a pipe, a file or a variable."""
    from teamwright.permissions.program_config_files import WRITING_PROGRAMS

    plain = _PROJECT.sub(".", line).replace("||", ";")
    words = {os.path.basename(word) for word in _BETWEEN.split(plain)}
    return bool(set(plain) & set("|<>$`")) or not words.isdisjoint(WRITING_PROGRAMS)


def _named_paths(root: Path, command: str, base: Path | None = None) -> set[Path]:
    """Return every path in a command that could name a file of the repository: rather too many than too few.

    A path after a variable or a substitution (`$(git rev-parse --show-toplevel)/x.sh`) may be anywhere in it.
    """
    plain = command.replace('"', "").replace("'", "")
    forms = {_PROJECT.sub(lambda _: str(root), plain), _DEFAULT.sub(r"\1", plain)}
    words = {word for form in forms for word in _BETWEEN.split(form)}
    words |= {part for word in words for part in _FILLED_IN.split(word)}
    found: set[Path] = set()
    for word in words:
        for name in {word, word.lstrip("/")} if 0 < len(word) < 1_000 else ():
            with suppress(OSError, ValueError):  # a name that no file can have
                found.add(Path(os.path.realpath((base or root) / name)))
    return {path for path in found if path.is_relative_to(root)}
