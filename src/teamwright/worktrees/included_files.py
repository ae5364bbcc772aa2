"""The files that git ignores and a worktree gets all the same: those that `.worktreeinclude` names.

The file has the patterns of `.gitignore`. Only ignored files are copied, since the worktree has all others.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from teamwright.worktrees.repository_git import RepositoryGit

INCLUDE_FILE = ".worktreeinclude"

MAX_FILES = 20_000
"""The most files that are copied; a longer list is an error of the patterns."""


def copy_included(git: RepositoryGit, target: Path) -> tuple[list[str], list[str]]:
    """Copy the ignored files that `.worktreeinclude` of the person's checkout names.

    Returns the copied paths, and sentences about what was left out. Links are copied as links, and only when they lead
    to a place inside the checkout.
    """
    if not (git.tree / INCLUDE_FILE).is_file():
        return [], []
    named = _split(git.call("ls-files", "-z", "--others", "--ignored", f"--exclude-from={INCLUDE_FILE}").output)
    if not named:
        return [], []
    ignored = _split(git.call("check-ignore", "-z", "--stdin", text="\0".join(named) + "\0").output)
    notes: list[str] = []
    if len(ignored) > MAX_FILES:
        notes.append(f"{INCLUDE_FILE} names {len(ignored)} files; the first {MAX_FILES} were copied")
    copied = [path for path in ignored[:MAX_FILES] if _copy(git.tree, target, path, notes)]
    return copied, notes


def _copy(source: Path, target: Path, path: str, notes: list[str]) -> bool:
    there, here = source / path, target / path
    if here.exists() or here.is_symlink():
        return False
    if there.is_symlink() and not Path(os.path.realpath(there)).is_relative_to(source):
        notes.append(f"{path} is a link that leads out of the repository, and was not copied")
        return False
    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(there, here, follow_symlinks=False)
    except OSError as problem:
        notes.append(f"{path} was not copied: {problem.strerror or problem}")
        return False
    return True


def _split(output: str) -> list[str]:
    return [part for part in output.split("\0") if part]
