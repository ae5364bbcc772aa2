"""The sources of agent definitions in order of precedence: flag, repository, user, plugins.

Depends on directories and on the readers of definitions.
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
"""Names of sources, shown before their directories."""


@dataclass(frozen=True, slots=True)
class DefinitionDirectory:
    """One directory of definitions, or a single file.

    `prefix` is put before their names; `inside`: links must not lead out of it.
    """

    source: str
    base: Path
    prefix: str = ""
    inside: Path | None = None

    @property
    def is_in_repository(self) -> bool:
        """Return True when other people may have written the definitions."""
        return self.inside is not None

    def definitions(self) -> list[FoundDefinition]:
        """Return the definitions in it, as they are now."""
        if not os.access(self.base, os.F_OK):
            return []  # most directories do not exist, and this check is all that they cost at a start
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
    """All sources of a run; `given` were passed with a flag or by a program."""

    given: tuple[FoundDefinition, ...] = ()
    directories: tuple[DefinitionDirectory, ...] = ()
    plugins: tuple[Plugin, ...] = ()


def repository_directories(root: Path, compat: bool) -> list[DefinitionDirectory]:
    """Return the directories of a repository, the nearest first."""
    names = (".teamwright", ".claude") if compat else (".teamwright",)
    return [DefinitionDirectory(f"{REPOSITORY}, {name}", root / name / "agents", inside=root) for name in names]


def user_directories(home: Home, compat: bool) -> list[DefinitionDirectory]:
    """Return the user's own directories, the nearest first."""
    theirs = Path(os.path.expanduser("~/.claude/agents"))
    return [
        DefinitionDirectory(USER, home.own / "agents"),
        *([DefinitionDirectory(f"{USER}, .claude", theirs)] if compat else []),
    ]


def definition_sources(
    home: Home, root: Path, *, compat: bool, agents: Mapping[str, Any] | None = None, plugins: Sequence[Path] = ()
) -> DefinitionSources:
    """Return the sources of a run in the repository at `root`, by real path. Raises UsageError for a flag's value."""
    users = user_directories(home, compat)
    own = {os.path.realpath(shelf.base) for shelf in users}
    mine = [shelf for shelf in repository_directories(root, compat) if os.path.realpath(shelf.base) not in own]
    known = [plugin_at(path) for path in plugins]
    parts = [
        DefinitionDirectory(f"{PLUGIN} {one.name}", place, f"{one.name}:") for one in known for place in one.agents
    ]
    return DefinitionSources(tuple(parse_given_agents(agents or {})), (*mine, *users, *parts), tuple(known))
