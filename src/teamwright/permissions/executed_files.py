"""The files of a project that a shell line would run. `executed_file_search` finds them.

Loaded at the start of a session, unlike the search.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.processes.mentioned_files import content_digest, is_program
from teamwright.processes.program_environment import places_on_the_way

SCRIPT_EXTENSIONS = (
    *(".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts"),
    *(".rb", ".pl", ".php", ".lua", ".mk"),
)
"""Ends of the names of scripts."""


class RunFiles(Struct, frozen=True):
    """The files of a project that a line would run, by real path; also files that do not exist yet.

    `files` are programs and scripts, `settings` files that name the programs of a builder (Makefile, package.json),
    `trees` directories that count with everything below them. `links` are links of the project on the way to them.
    `unknown` is why there may be more; empty if not. `is_of_project`: those are files of the project, rather than
    what a program from elsewhere does. `executed` are those of `files` that run under any name. `runs_git`:
    what it runs also depends on the repository at that moment.
    """

    files: frozenset[Path] = frozenset()
    settings: frozenset[Path] = frozenset()
    trees: frozenset[Path] = frozenset()
    links: frozenset[Path] = frozenset()
    unknown: str = ""
    is_of_project: bool = False
    runs_git: bool = False
    executed: frozenset[Path] = frozenset()

    def digests(self, root: Path) -> list[str]:
        """Return a digest of each file and tree, and the target of each link."""
        found = [content_digest([path], root) for path in sorted({*self.files, *self.settings, *self.trees})]
        return found + [f"{os.path.relpath(link, root)} -> {_target(link)}" for link in sorted(self.links)]

    @property
    def programs(self) -> RunFiles:
        """The part without files that are data, such as a log that the line writes."""
        return replace(self, files=self.executed | frozenset(filter(is_program, self.files)))


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def links_on_the_way(path: str, root: Path) -> Iterator[Path]:
    """Yield the links below the root through which an absolute path leads. A command could put others there."""
    *links, _end = places_on_the_way(path)
    yield from (Path(link) for link in links if link is not None and Path(link).is_relative_to(root))


NOTHING = RunFiles()


def merge_run_files(found: Iterable[RunFiles]) -> RunFiles:
    """Return all files of several lines."""
    every = list(found)
    return RunFiles(
        frozenset[Path]().union(*(one.files for one in every)),
        frozenset[Path]().union(*(one.settings for one in every)),
        frozenset[Path]().union(*(one.trees for one in every)),
        frozenset[Path]().union(*(one.links for one in every)),
        next((one.unknown for one in every if one.unknown), ""),
        any(one.is_of_project for one in every),
        any(one.runs_git for one in every),
        frozenset[Path]().union(*(one.executed for one in every)),
    )
