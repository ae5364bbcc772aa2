"""The files of a project that a shell line would run. `run_file_search` finds them.

Loaded at the start of a session, unlike the search.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from teamwright.processes.named_files import content_digest

DATA_EXTENSIONS = frozenset(
    (
        *(".log", ".txt", ".out", ".csv", ".tmp", ".pid", ".lock", ".md", ".rst", ".html", ".css", ".svg", ".png"),
        *(".json", ".jsonl", ".yaml", ".yml", ".toml", ".xml", ".ini", ".cfg", ".db", ".sqlite"),
        *(".c", ".h", ".cc", ".cpp", ".hpp", ".rs", ".go", ".java", ".kt", ".swift", ".cs"),
    )
)
"""Ends of the names of files that no interpreter runs. A name without an end may be a script."""

SCRIPT_EXTENSIONS = (
    *(".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts"),
    *(".rb", ".pl", ".php", ".lua", ".mk"),
)
"""Ends of the names of scripts."""


class RunFiles(Struct, frozen=True):
    """What a line would run in a project, by real path; also files that do not exist yet.

    `files` are programs and scripts, `settings` files that name the programs of a builder (Makefile, package.json),
    `trees` directories that count with everything below them. `unknown` is why there may be more; empty if not.
    """

    files: frozenset[Path] = frozenset()
    settings: frozenset[Path] = frozenset()
    trees: frozenset[Path] = frozenset()
    unknown: str = ""

    def digests(self, root: Path) -> list[str]:
        """Return a digest of each file and tree."""
        return [content_digest([path], root) for path in sorted({*self.files, *self.settings, *self.trees})]

    @property
    def programs(self) -> RunFiles:
        """The part without files that are data, such as a log that the line writes."""
        return RunFiles(frozenset(filter(is_program, self.files)), self.settings, self.trees, self.unknown)


def is_program(path: Path) -> bool:
    """Return True for a file that may be a script or a program, and for one that does not exist."""
    return path.suffix not in DATA_EXTENSIONS or not os.path.lexists(path) or os.access(path, os.X_OK)


NOTHING = RunFiles()


def merge_run_files(found: Iterable[RunFiles]) -> RunFiles:
    """Return all files of several lines."""
    every = list(found)
    return RunFiles(
        frozenset[Path]().union(*(one.files for one in every)),
        frozenset[Path]().union(*(one.settings for one in every)),
        frozenset[Path]().union(*(one.trees for one in every)),
        next((one.unknown for one in every if one.unknown), ""),
    )
