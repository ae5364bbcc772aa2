"""Where definitions come from, the first that counts first: flag, repository, user, plugins.

Knows directories; reads definitions through `reading`, decides nothing about them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teamwright.app.agents.plugins import Plugin, plugin_at
from teamwright.app.agents.reading import Found, definition_files, given_agents, read_file
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home

REPOSITORY, USER, PLUGIN = "repository", "user", "plugin"
"""Words for sources, before their directories."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """One directory of definitions, or a single file.

    `prefix` stands before their names; `inside`: links may not lead out of it.
    """

    source: str
    base: Path
    prefix: str = ""
    inside: Path | None = None

    @property
    def of_repository(self) -> bool:
        """Whether somebody else may have written what is in it."""
        return self.inside is not None

    def found(self) -> list[Found]:
        """The definitions in it, as they are now."""
        if not os.access(self.base, os.F_OK):
            return []  # most places are not there: that is all they cost at every start
        if self.base.is_file():
            return [read_file(self.base, self.source, self.prefix)]
        rows: list[Found] = []
        for path, refused in definition_files(self.base, self.inside):
            if refused:
                rows.append(Found(self.prefix + path.name.removesuffix(".md"), self.source, str(path), problem=refused))
            else:
                rows.append(read_file(path, self.source, self.prefix))
        return rows


@dataclass(frozen=True, slots=True)
class Places:
    """All places of a run; `given` were handed over with a flag or by a program."""

    given: tuple[Found, ...] = ()
    shelves: tuple[Shelf, ...] = ()
    plugins: tuple[Plugin, ...] = ()


def repository_shelves(root: Path, compat: bool) -> list[Shelf]:
    """Those of a repository, the nearest first."""
    names = (".teamwright", ".claude") if compat else (".teamwright",)
    return [Shelf(f"{REPOSITORY}, {name}", root / name / "agents", inside=root) for name in names]


def user_shelves(home: Home, compat: bool) -> list[Shelf]:
    """The user's own, the nearest first."""
    theirs = Path(os.path.expanduser("~/.claude/agents"))
    return [Shelf(USER, home.ours / "agents"), *([Shelf(f"{USER}, .claude", theirs)] if compat else [])]


def places_of(
    home: Home, root: Path, *, compat: bool, agents: Mapping[str, Any] | None = None, plugins: Sequence[Path] = ()
) -> Places:
    """The places of a run in the repository at `root`, by real path. Raises UsageError for a flag's."""
    users = user_shelves(home, compat)
    own = {os.path.realpath(shelf.base) for shelf in users}
    mine = [shelf for shelf in repository_shelves(root, compat) if os.path.realpath(shelf.base) not in own]
    known = [plugin_at(path) for path in plugins]
    parts = [Shelf(f"{PLUGIN} {one.name}", place, f"{one.name}:") for one in known for place in one.agents]
    return Places(tuple(given_agents(agents or {})), (*mine, *users, *parts), tuple(known))
