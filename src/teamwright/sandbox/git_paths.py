"""The git directories of an agent's directories, and the files by which git runs programs there.

Reads files of git, runs nothing. Depends on the discovery of repositories and the parser of configurations.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from teamwright.git.configuration import SeenFiles, config_entries, plain_values
from teamwright.git.repository import discover

_HOOKS = "core.hookspath"


def git_directories(directories: Iterable[str]) -> list[str]:
    """Return the git directories of these directories, with those that linked worktrees share."""
    found: dict[str, None] = {}
    for directory in directories:
        repository = discover(Path(directory)).repository
        if repository is not None and repository.belongs_to_tree:
            found |= {str(repository.git_dir): None, str(repository.common): None}
    return list(found)


def files_of_each(git_dir: str, kind: str, files: Iterable[str]) -> list[str]:
    """Return these files of the submodules or the worktrees of a git directory, one level deep."""
    try:
        names = [entry.path for entry in os.scandir(os.path.join(git_dir, kind)) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [os.path.join(path, name) for path in names for name in files]


def configured_files(directory: str) -> list[str]:
    """Return the files that the configuration of a repository includes, and the directory of hooks that it names."""
    known = _configured.get(directory)
    if known is not None and known[1].are_unchanged:
        return known[0]
    repository = discover(Path(directory)).repository
    if repository is None or not repository.belongs_to_tree:
        return []
    own, seen = repository.common / "config", SeenFiles()
    for file in (own, repository.git_dir / "config.worktree"):
        list(config_entries(file, repository.common, repository.tree, seen))
    hooks = [plain_values(file, [_HOOKS]).get(_HOOKS) for file in seen.paths]
    named = [os.path.join(repository.tree, os.path.expanduser(path)) for path in hooks if path]
    found = [os.path.normpath(path) for path in (*map(str, seen.paths[1:]), *named)]
    if len(_configured) >= _MAX_KNOWN:
        _configured.clear()
    _configured[directory] = found, seen
    return found


_MAX_KNOWN = 64
_configured: dict[str, tuple[list[str], SeenFiles]] = {}
"""The files of each repository, valid while nothing that they were read from changes: each command asks for them."""
