"""Refs of a repository, read from its files without running git. Formats: gitrepository-layout(5)."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from teamwright.git.repository import GitRepository, current_branch
from teamwright.storage.files import read_beginning, read_plain

_MAX_PACKED = 64 << 20
_MAX_LOG = 4 << 20
_FIRST_LINE = 1_000
_LOGGED = re.compile(rb"> ([0-9]+) [+-][0-9]{4}\t(.*)")
"""The time in seconds and the text of a line in a log of git."""


class FileRefs(Struct, frozen=True):
    """The refs of one repository, as seen from one of its worktrees."""

    repository: GitRepository

    @property
    def head(self) -> str:
        """The branch that is checked out; empty for none."""
        branch = current_branch(self.repository.tree) or ""
        return "" if branch.startswith("(") else branch

    def has(self, ref: str) -> bool:
        """Return True when this full ref exists, and where that is unknown."""
        common = self.repository.common
        if not ref.startswith("refs/"):
            return False
        if os.path.lexists(common / "reftable") or os.path.isfile(common / ref):
            return True
        return self._is_packed(re.escape(ref))

    def has_remote(self, branch: str) -> bool:
        """Return True when a remote has a branch of this name, and where that is unknown."""
        remotes = self.repository.common / "refs" / "remotes"
        try:
            names = os.listdir(remotes)
        except OSError:
            names = []
        if any(os.path.isfile(remotes / name / branch) for name in names):
            return True
        return self._is_packed(f"refs/remotes/.*/{re.escape(branch)}")

    def is_made_here(self, branch: str) -> bool:
        """Return True for a branch that was made by a checkout in this worktree, as the logs of git say."""
        common = self.repository.common
        git_dir = self.repository.git_dir
        try:
            first = read_beginning(common / "logs" / "refs" / "heads" / branch, _FIRST_LINE).split(b"\n")[0]
            moves = read_plain(git_dir / "logs" / "HEAD", _MAX_LOG).split(b"\n")
        except (OSError, ValueError):
            return False
        began = _LOGGED.search(first)
        entered = next((line for line in moves if line.endswith(b" to " + os.fsencode(branch))), b"")
        moved = _LOGGED.search(entered)
        if began is None or moved is None or re.match(rb"0+ ", first) is None:
            return False
        return abs(int(began[1]) - int(moved[1])) <= 1 and began[2].startswith(b"branch: Created")

    def _is_packed(self, pattern: str) -> bool:
        try:
            content = read_plain(self.repository.common / "packed-refs", _MAX_PACKED)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True
        return re.search(rf"(?m)^[0-9a-f]+ {pattern}$", content.decode("utf-8", "surrogateescape")) is not None
