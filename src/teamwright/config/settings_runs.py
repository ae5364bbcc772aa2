"""The files of a project that the hooks, servers, status line and checks of a run's settings would run.

Edits of these files ask, and confined commands cannot change those that run outside of the sandbox.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.config.project_runs import hook_files, is_of_repository, line_files, named_files, server_files
from teamwright.config.settings.settings import Settings
from teamwright.hooks.hook_index import HookSpec
from teamwright.permissions.run_files import RunFiles, merge_run_files


def files_run_by(settings: Settings, root: Path) -> RunFiles:
    """Return the files of a project that the hooks, servers, status line and checks of these settings would run."""
    found = [hook_files(root, hook) for hook in settings.hooks]
    lines = [hook.command_line for hook in settings.hooks if hook.command]
    found += [RunFiles(files=frozenset(named_files(root, line))) for line in lines]
    found += [server_files(root, server.entry) for server in settings.mcp.servers]
    command = settings.status_line.get("command")
    checks = [command, settings.worktrees.setup, settings.worktrees.check, settings.check.command]
    found += [line_files(root, line) for line in checks if isinstance(line, str) and line]
    return merge_run_files(found)


def programs_outside(settings: Settings, root: Path) -> tuple[str, ...]:
    """Return the programs and directories of a project that a person's own hooks, status line and MCP servers run
    outside of the sandbox: no confined command may change them. A repository's hook is compared before it runs instead.

    The packages that a server imports are not among them: who develops a server runs it with an agent.
    """
    command = settings.status_line.get("command")
    found = [hook_files(root, hook) for hook in settings.hooks if _runs_outside(hook)]
    is_own = not is_of_repository(root, settings.origins.get("statusLine", ""))
    found += [line_files(root, command)] if isinstance(command, str) and is_own else []
    paths = {path for one in found for path in (*one.programs.files, *one.trees, *one.links)}
    servers = [server_files(root, one.entry) for one in settings.mcp.servers if not one.foreign]
    paths |= {path for one in servers for path in (*one.programs.files, *one.links)}
    return tuple(sorted(map(str, paths)))


def _runs_outside(hook: HookSpec) -> bool:
    return not (hook.files_digest or hook.is_confined or hook.confined_because)
