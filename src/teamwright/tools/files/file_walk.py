"""The files below a directory that git does not ignore, in order of their paths.

`.gitignore` counts inside git repositories, from the repository's root down; a deeper file overrides a higher one.
`.git` and linked directories are not entered. pathspec is imported with the first `.gitignore`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.storage.read_bounded import read_plain

_MAX_GITIGNORE = 1_000_000
"""The largest `.gitignore` that is read, in bytes; a longer one counts as empty."""


class WalkTimeout(Exception):
    """The walk did not end in time. Files found so far are valid."""


class _Rules(Struct, frozen=True):
    """One `.gitignore`: its directory as an absolute path with a final slash, and its lines."""

    base: str
    spec: Any


_Chain = tuple[_Rules, ...]


class _WalkOptions(Struct, frozen=True):
    """The options of a walk. `excluded` matches in full, from `start` on, the paths that are skipped."""

    deadline: float
    follow_links: bool
    excluded: re.Pattern[str] | None
    start: int

    def passes(self, path: str) -> bool:
        return self.excluded is None or self.excluded.fullmatch(path, self.start) is None


def walk(
    root: Path, *, deadline: float = float("inf"), follow_links: bool = True, excluded: re.Pattern[str] | None = None
) -> Iterator[os.DirEntry[str]]:
    """Walk the files, depth first. `deadline` is of `time.monotonic`; `follow_links` includes links to files.

    Files and directories whose relative path `excluded` matches in full are left out, and so are unreadable
    directories. Raises WalkTimeout.
    """
    in_git, chain = _parent_rules(root)
    yield from _walk(
        str(root), in_git, chain, _WalkOptions(deadline, follow_links, excluded, len(str(root).rstrip("/")) + 1)
    )


def _walk(directory: str, in_git: bool, chain: _Chain, terms: _WalkOptions) -> Iterator[os.DirEntry[str]]:
    if time.monotonic() > terms.deadline:
        raise WalkTimeout
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    names = {entry.name for entry in entries}
    if ".git" in names:
        in_git, chain = True, ()
    if in_git and ".gitignore" in names:
        chain = (_rules(directory), *chain)
    for entry in entries:
        if not terms.passes(entry.path):
            continue
        if entry.is_dir(follow_symlinks=False):
            if entry.name != ".git" and not _ignored(chain, entry.path + "/"):
                yield from _walk(entry.path, in_git, chain, terms)
        elif entry.is_file(follow_symlinks=terms.follow_links) and not _ignored(chain, entry.path):
            yield entry


def _parent_rules(root: Path) -> tuple[bool, _Chain]:
    """Return whether the directory is in a repository, and the rules above it, the nearest first."""
    chain: list[_Rules] = []
    for parent in root.parents if not os.path.lexists(root / ".git") else ():
        if os.path.isfile(parent / ".gitignore"):
            chain.append(_rules(str(parent)))
        if os.path.lexists(parent / ".git"):
            rules = tuple(chain)
            # An ignored directory that is named explicitly is searched.
            return True, () if any(_ignored(rules, f"{one}/") for one in (root, *root.parents)) else rules
    return False, ()


def _rules(directory: str) -> _Rules:
    from pathspec import GitIgnoreSpec

    base = directory.rstrip("/") + "/"
    try:
        lines = read_plain(f"{base}.gitignore", _MAX_GITIGNORE).decode("utf-8", "replace").split("\n")
    except OSError:
        lines = []
    return _Rules(base, GitIgnoreSpec.from_lines(lines))


def _ignored(chain: _Chain, path: str) -> bool:
    for rules in chain:
        if path.startswith(rules.base) and path != rules.base:
            verdict = rules.spec.check_file(path[len(rules.base) :]).include
            if verdict is not None:
                return bool(verdict)
    return False
