"""Clones of repositories that a person named: all files at one commit, without running a hook or a submodule.

The person's own git configuration counts, so that private repositories work. Depends on git alone.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from msgspec import Struct

TIMEOUT_S = 600.0
"""Seconds that a clone may take."""

_PROTOCOLS = "https:http:ssh:git:file"
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.symlinks": "true",
    "filter.lfs.smudge": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "submodule.recurse": "false",
}


class CloneFailed(Exception):
    """git did not deliver the repository or the commit. The text is git's own, in one line."""


class ClonedRepository(Struct, frozen=True):
    """A clone: its directory and the commit that is checked out."""

    path: Path
    commit: str


def clone_repository(address: str, ref: str, into: Path) -> ClonedRepository:
    """Clone a repository and check out a branch, tag or commit, its default branch without `ref`.

    Raises CloneFailed.
    """
    _git(into.parent, "clone", "--quiet", "--no-checkout", "--no-recurse-submodules", "--", address, str(into))
    commit = ""
    for name in (f"refs/remotes/origin/{ref}", f"refs/tags/{ref}", ref) if ref else ("HEAD",):
        try:
            commit = _git(into, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            break
        except CloneFailed:
            continue
    if not commit:
        raise CloneFailed(f"there is no branch, tag or commit {ref[:80]!r}" if ref else "it has no commit")
    _git(into, "checkout", "--quiet", "--detach", commit)
    return ClonedRepository(into, commit)


def _git(cwd: Path, *args: str) -> str:
    switches = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_ALLOW_PROTOCOL": _PROTOCOLS, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            ["git", *switches, *args],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise CloneFailed(f"git did not end in {TIMEOUT_S:g} s") from None
    except OSError as problem:
        raise CloneFailed(f"git cannot be run: {problem.strerror or problem}") from None
    if done.returncode:
        raise CloneFailed(" ".join(done.stderr.split())[-300:] or f"git {args[0]} failed")
    return done.stdout.strip()
