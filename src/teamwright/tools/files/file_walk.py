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

from msgspec import Struct, field

from teamwright.git.git_calls import GitCallOptions, run_git
from teamwright.git.repository_risks import git_entries
from teamwright.storage.files import read_plain

_MAX_GITIGNORE = 1_000_000
"""The largest `.gitignore` that is read, in bytes; a longer one counts as empty."""


class WalkTimeout(Exception):
    """The walk did not end in time. Files found so far are valid."""


class _Rules(Struct, frozen=True):
    """One `.gitignore`: its directory as an absolute path with a final slash, and its lines."""

    base: str
    spec: Any


_Chain = tuple[_Rules, ...]


class LeftOut(Struct):
    """The entries that a walk has left out: paths that git ignores, and links that it did not follow."""

    ignored: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])

    def describe(self, root: Path) -> str:
        """Return a sentence with the first names, relative to the root; empty when nothing was left out."""
        parts = [("what git ignores", self.ignored), ("links to directories", self.links)]
        texts = [f"{what} ({_first_names(paths, root)})" for what, paths in parts if paths]
        return f"Left out: {', '.join(texts)}. Name such a path to search it." if texts else ""


_NAMED = 3
"""The most names of each kind in a sentence."""


def _first_names(paths: list[str], root: Path) -> str:
    names = [os.path.relpath(path, root) + ("/" if path.endswith("/") else "") for path in paths[:_NAMED]]
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(names) + more


class _WalkOptions(Struct, frozen=True):
    """The options of a walk. `excluded` matches in full, from `start` on, the paths that are skipped."""

    deadline: float
    follow_links: bool
    excluded: re.Pattern[str] | None
    start: int
    left_out: LeftOut

    def passes(self, path: str) -> bool:
        return self.excluded is None or self.excluded.fullmatch(path, self.start) is None


def walk(
    root: Path,
    *,
    deadline: float = float("inf"),
    follow_links: bool = True,
    excluded: re.Pattern[str] | None = None,
    left_out: LeftOut | None = None,
) -> Iterator[os.DirEntry[str]]:
    """Walk the files, depth first. `deadline` is of `time.monotonic`; `follow_links` includes links to files. What it
    leaves out is added to `left_out`.

    Files and directories whose relative path `excluded` matches in full are left out, and so are unreadable
    directories. Raises WalkTimeout.
    """
    in_git, chain = _parent_rules(root)
    start = len(str(root).rstrip("/")) + 1
    left_out = LeftOut() if left_out is None else left_out
    yield from _walk(str(root), in_git, chain, _WalkOptions(deadline, follow_links, excluded, start, left_out))


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
        in_git = True
        chain = ()
    if in_git and ".gitignore" in names:
        chain = (_rules(directory), *chain)
    for entry in entries:
        if not terms.passes(entry.path):
            continue
        if entry.is_dir(follow_symlinks=False):
            if entry.name == ".git":
                continue
            if _ignored(chain, entry.path + "/"):
                terms.left_out.ignored.append(entry.path + "/")
            else:
                yield from _walk(entry.path, in_git, chain, terms)
        elif entry.is_file(follow_symlinks=terms.follow_links):
            if _ignored(chain, entry.path):
                terms.left_out.ignored.append(entry.path)
            else:
                yield entry
        elif entry.is_symlink() and entry.is_dir():
            terms.left_out.links.append(entry.path)


def is_excluded(but: re.Pattern[str], path: str, start: int) -> bool:
    """Return True when the path or a directory above it is excluded."""
    ends = (at for at in range(start, len(path) + 1) if at == len(path) or path[at] == "/")
    return any(but.fullmatch(path, start, end) is not None for end in ends)


def is_reached(root: Path, directory: Path) -> bool:
    """Return True when a walk of the root would enter this directory below it: no link, and nothing ignored."""
    names = directory.relative_to(root).parts
    places = [root.joinpath(*names[: at + 1]) for at in range(len(names))]
    if any(os.path.islink(one) for one in places):
        return False
    _, chain = _parent_rules(root)
    for place in places:
        if os.path.isfile(place.parent / ".gitignore"):
            chain = (_rules(str(place.parent)), *chain)
        if _ignored(chain, f"{place}/"):
            return False
        if os.path.lexists(place / ".git"):
            chain = ()
    return True


def tracked_though_ignored(root: Path) -> list[str]:
    """Return the paths below the directory that git tracks although a `.gitignore` names them, also directories of
    submodules. Empty outside git, and where git may not be called. Blocks; raises nothing.
    """
    if not any(os.path.lexists(place / ".git") for place in (root, *root.parents)):
        return []
    args = ("ls-files", "-z", "--cached", "--ignored", "--exclude-per-directory=.gitignore")
    # It reads the index and runs no program of the repository.
    done = run_git(root, *args, terms=GitCallOptions(trusted=frozenset(git_entries(root)), exact=True))
    names = done.output.split("\0") if done.ok else []
    return [os.path.join(root, name) for name in names if name]


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
