"""Tracked files of the repository by parts of their paths, for completions after `@`.

Depends on git. A repository that git may not read, and a directory outside git, have no tracked files here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.processes.git import run_git
from teamwright.ui.display_text import clean

MAX_FILES = 200_000
"""The most files that are searched."""

FRESH_S = 5.0
"""Seconds after which the list of files is read again."""

LIST_TIMEOUT_S = 3.0
"""The most seconds that git may take; a slower repository has no search."""

_NO_MATCH = 9


class TrackedFiles(Struct):
    """The tracked files below a directory, read when they are needed."""

    cwd: Path
    _paths: Sequence[str] = ()
    _read_at: float = float("-inf")

    async def paths(self) -> Sequence[str]:
        """Return the paths of the files, relative to the directory. Raises nothing."""
        if time.monotonic() - self._read_at > FRESH_S:
            self._paths = await asyncio.to_thread(_tracked_paths, self.cwd)
            self._read_at = time.monotonic()
        return self._paths


def _tracked_paths(cwd: Path) -> list[str]:
    done = run_git(cwd, "ls-files", "-z", timeout_s=LIST_TIMEOUT_S)
    return [path for path in done.output.split("\0")[:MAX_FILES] if path] if done.ok else []


def best_matches(paths: Iterable[str], word: str, most: int) -> list[str]:
    """Return the paths that contain the characters of the word in this order, the best first.

    A file name that begins with the word is better than one that contains it, and that is better than a path.
    """
    wanted = word.lower()
    found = [(rank, len(path), path) for path in paths if (rank := _rank(path.lower(), wanted)) < _NO_MATCH]
    return [path for _, _, path in sorted(found) if clean(path) == path][:most]


def _rank(path: str, word: str) -> int:
    name = path.rpartition("/")[2]
    if name.startswith(word):
        return 0
    if word in name:
        return 1
    if word in path:
        return 2
    if _is_subsequence(word, name):
        return 3
    return 4 if _is_subsequence(word, path) else _NO_MATCH


def _is_subsequence(word: str, text: str) -> bool:
    rest = iter(text)
    return all(char in rest for char in word)
