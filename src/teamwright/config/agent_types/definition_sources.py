"""Where definitions come from, the first that counts first: flag, repository, user, plugins.

Knows directories; reads definitions through `reading`, decides nothing about them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teamwright.config.agent_types.definition_files import (
    FoundDefinition,
    definition_files,
    parse_given_agents,
    read_file,
)
from teamwright.config.plugins import Plugin, plugin_at
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home

REPOSITORY, USER, PLUGIN = "repository", "user", "plugin"
"""Words for sources, before their directories."""


@dataclass(frozen=True, slots=True)
class DefinitionDirectory:
    """One directory of definitions, or a single file.

    `prefix` stands before their names; `inside`: links may not lead out of it.
    """

    source: str
    base: Path
    prefix: str = ""
    inside: Path | None = None

    @property
    def is_in_repository(self) -> bool:
        """Whether somebody else may have written what is in it."""
        return self.inside is not None

    def definitions(self) -> list[FoundDefinition]:
        """The definitions in it, as they are now."""
        if not os.access(self.base, os.F_OK):
            return []  # most places are not there: that is all they cost at every start
        if self.base.is_file():
            return [read_file(self.base, self.source, self.prefix)]
        rows: list[FoundDefinition] = []
        for path, refused in definition_files(self.base, self.inside):
            if refused:
                rows.append(
                    FoundDefinition(
                        self.prefix + path.name.removesuffix(".md"), self.source, str(path), problem=refused
                    )
                )
            else:
                rows.append(read_file(path, self.source, self.prefix))
        return rows


@dataclass(frozen=True, slots=True)
class DefinitionSources:
    """All places of a run; `given` were handed over with a flag or by a program."""

    given: tuple[FoundDefinition, ...] = ()
    directories: tuple[DefinitionDirectory, ...] = ()
    plugins: tuple[Plugin, ...] = ()


def repository_directories(root: Path, compat: bool) -> list[DefinitionDirectory]:
    """Those of a repository, the nearest first."""
    names = (".teamwright", ".claude") if compat else (".teamwright",)
    return [DefinitionDirectory(f"{REPOSITORY}, {name}", root / name / "agents", inside=root) for name in names]


def user_directories(home: Home, compat: bool) -> list[DefinitionDirectory]:
    """The user's own, the nearest first."""
    theirs = Path(os.path.expanduser("~/.claude/agents"))
    return [
        DefinitionDirectory(USER, home.own / "agents"),
        *([DefinitionDirectory(f"{USER}, .claude", theirs)] if compat else []),
    ]


def definition_sources(
    home: Home, root: Path, *, compat: bool, agents: Mapping[str, Any] | None = None, plugins: Sequence[Path] = ()
) -> DefinitionSources:
    """The places of a run in the repository at `root`, by real path. Raises UsageError for a flag's."""
    users = user_directories(home, compat)
    own = {os.path.realpath(shelf.base) for shelf in users}
    mine = [shelf for shelf in repository_directories(root, compat) if os.path.realpath(shelf.base) not in own]
    known = [plugin_at(path) for path in plugins]
    parts = [
        DefinitionDirectory(f"{PLUGIN} {one.name}", place, f"{one.name}:") for one in known for place in one.agents
    ]
    return DefinitionSources(tuple(parse_given_agents(agents or {})), (*mine, *users, *parts), tuple(known))
