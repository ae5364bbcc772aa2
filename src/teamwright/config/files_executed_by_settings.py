"""The files of a project that the hooks, servers, status line and checks of a run would run, and those that git obeys.

Edits of these files ask, and confined commands cannot change those that run outside of the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.agent_types import DefinitionSources
from teamwright.config.executed_file_digests import bind_hook, is_of_repository
from teamwright.config.plugins import plugin_variables
from teamwright.config.repository_programs import (
    git_code_files,
    hook_files,
    line_files,
    named_files,
    passes_data_on,
    server_files,
)
from teamwright.config.settings.settings import Settings
from teamwright.hooks.hook_definitions import HookSpec
from teamwright.permissions.executed_files import RunFiles, merge_run_files
from teamwright.storage.paths import Home


class FurtherPrograms(Struct, frozen=True):
    """The hooks and MCP servers of agent types and plugins, which run besides the settings' own. Hooks are bound."""

    hooks: tuple[HookSpec, ...] = ()
    own_servers: tuple[Any, ...] = ()


def find_further_programs(sources: DefinitionSources, home: Home, root: Path) -> FurtherPrograms:
    """Return the hooks and servers of the agent types and plugins of a run."""
    shelves = [one for shelf in sources.directories for one in shelf.definitions()]
    types = [(one.file, one.definition) for one in (*sources.given, *shelves) if one.definition is not None]
    hooks = [hook for _, kind in types for hook in kind.hooks]
    for plugin in sources.plugins:
        variables = tuple(plugin_variables(plugin, home).items())
        hooks += [replace(hook, variables=variables) for hook in plugin.hooks]
    servers = [
        entry
        for file, kind in types
        if not is_of_repository(root, file)
        for entry in kind.mcp_servers.values()
        if entry
    ]
    return FurtherPrograms(tuple(bind_all(hooks, root)), tuple(servers))


def bind_all(hooks: Iterable[HookSpec], root: Path) -> Iterator[HookSpec]:
    """Yield the hooks with the reason to confine each, and what those of the repository were when they were bound."""
    for hook in hooks:
        yield bind_hook(root, hook, hook_files(root, hook), is_projects=is_of_repository(root, hook.source))


NOTHING_FURTHER = FurtherPrograms()


def files_run_by(settings: Settings, root: Path, further: FurtherPrograms = NOTHING_FURTHER) -> RunFiles:
    """Return the files of a project that run for these settings, and those that git obeys there."""
    hooks = (*settings.hooks, *further.hooks)
    found = [_files_obeyed_by(root, hook) for hook in hooks]
    found += [server_files(root, server.entry) for server in settings.mcp.servers]
    found += [server_files(root, entry) for entry in further.own_servers]
    command = settings.status_line.get("command")
    checks = [command, settings.worktrees.setup, settings.worktrees.check, settings.check.command]
    found += [line_files(root, line) for line in checks if isinstance(line, str) and line]
    return merge_run_files([*found, git_code_files(root)])


def _files_obeyed_by(root: Path, hook: HookSpec) -> RunFiles:
    """Return the files of the project that a hook runs or obeys; also all that it names, unless it is certain that
    known programs only read those.
    """
    found = hook_files(root, hook)
    if not hook.command or (not found.unknown and not (_runs_something(found) and passes_data_on(hook.command_line))):
        return found
    return merge_run_files([found, RunFiles(files=frozenset(named_files(root, hook.command_line)))])


def _runs_something(found: RunFiles) -> bool:
    return bool(found.files or found.settings or found.trees or found.links)


def programs_outside(settings: Settings, root: Path, further: FurtherPrograms = NOTHING_FURTHER) -> tuple[str, ...]:
    """Return the programs and directories of a project that hooks, the status line and a person's MCP servers run
    outside of the sandbox, and those that git obeys: no confined command may change them.

    A repository's hook is compared before it runs too, but a command could change the script after that. The packages
    that a server imports are not among them: who develops a server runs it with an agent.
    """
    found = [hook_files(root, hook) for hook in (*settings.hooks, *further.hooks) if _runs_outside(hook)]
    command = settings.status_line.get("command")
    if isinstance(command, str):
        line = line_files(root, command)
        is_confined = bool(line.unknown) and is_of_repository(root, settings.origins.get("statusLine", ""))
        found += [] if is_confined else [line]
    found.append(git_code_files(root))
    paths = {path for one in found for path in (*one.programs.files, *one.trees, *one.links)}
    entries = (*(one.entry for one in settings.mcp.servers if not one.foreign), *further.own_servers)
    servers = [server_files(root, entry) for entry in entries]
    paths |= {path for one in servers for path in (*one.programs.files, *one.links)}
    return tuple(sorted(map(str, paths)))


def _runs_outside(hook: HookSpec) -> bool:
    return not (hook.is_confined or hook.confined_because)
