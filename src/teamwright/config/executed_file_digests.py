"""The files that a project's hooks, servers, status lines, checks and skills would run, and their digests.

Trust covers these files, edits of them ask, and a repository's hook is compared with them before it runs. The parser of
shell lines is loaded with the first line. Depends on settings.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from msgspec.structs import replace

from teamwright.git.program_settings import (
    person_entries,
    person_environment,
)
from teamwright.git.repository_risks import SUBMODULES, GitEntry, git_entries
from teamwright.hooks.hook_definitions import HookSpec
from teamwright.permissions.executed_files import RunFiles
from teamwright.processes.mentioned_files import content_digest


def run_digests(root: Path, found: RunFiles) -> list[str]:
    """Return the digests of these files and trees."""
    return found.digests(root)


def hook_digest(root: Path, hook: HookSpec, found: RunFiles) -> str:
    """Return one digest of everything that a repository's hook would run: compared before it runs. `found` are its
    `hook_files`.
    """
    beside = Path(hook.source).parent / "hooks"
    parts = [
        "files",  # so that a hook without files has a digest too
        *run_digests(root, found.programs),
        content_digest([beside], root) if beside.is_dir() else "",
    ]
    return "\0".join(parts)


def is_of_repository(root: Path, source: str) -> bool:
    """Return True for a settings file or a definition that the repository brings."""
    return any(Path(source).is_relative_to(root / name) for name in (".claude", ".teamwright", ".agents"))


def bind_hook(root: Path, hook: HookSpec, found: RunFiles, *, is_projects: bool) -> HookSpec:
    """Return a hook with the reason to confine it, and for a hook of the repository the digest of what it runs. `found`
    are its `hook_files`.

    A repository's hook is confined when its program is not known. A person's own one is confined when the project says
    what runs (`make`, `npm run`, `python -m`), unless the person said that it runs outside.
    """
    hook = replace(hook, is_projects=is_projects, runs_git=found.runs_git)
    if hook.function is not None or not hook.command:
        return hook
    if is_projects:
        return replace(hook, files_digest=hook_digest(root, hook, found), confined_because=found.unknown)
    return replace(hook, confined_because=found.unknown) if found.is_of_project and not hook.is_outside else hook


def git_doubt(place: Path, trusted: Collection[GitEntry]) -> str:
    """Return why git may run a program of the project in this directory now; empty when it runs none.

    `trusted` are entries that a person trusted. A submodule has its own configuration, which a command can write and
    trust does not compare.
    """
    persons = person_entries(place, person_environment(os.environ))
    entries = (one for one in (*git_entries(place), *persons) if one.name == SUBMODULES or one not in trusted)
    return next((f"git may run a program that the repository names ({one.name})" for one in entries), "")
