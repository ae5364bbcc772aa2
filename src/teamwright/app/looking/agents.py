"""Kinds of agents as a person looks at them: where each comes from, what holds, what is shadowed, what has no effect.

Reads what a run would read, under the trust that is on file. Starts nothing, trusts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from teamwright.agent.definition import AgentDefinition
from teamwright.app.agents.kinds import Entry, Kinds
from teamwright.app.agents.opening import Trusted
from teamwright.app.agents.places import Plugin, places_of
from teamwright.app.agents.resolving import require_possible
from teamwright.app.ground import definition_of
from teamwright.app.settings.merging import reads_other_product
from teamwright.app.settings.model import Flags
from teamwright.app.trust.store import Trust
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look at: a directory, and what flags add to it."""

    home: Home
    cwd: Path
    settings_file: Path | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugins: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class KindView:
    """One definition. `state` is used, shadowed, needs trust or broken; `why` says by what, or what is wrong.

    `fields` are what it says, as files spell it; `refused` why it does not start.
    """

    name: str
    state: str
    source: str
    file: str
    why: str = ""
    description: str = ""
    prompt: str = ""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    warnings: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class KindsView:
    """All definitions in the order that counts, and the parts of plugins that are not read."""

    kinds: tuple[KindView, ...]
    ignored: tuple[str, ...] = ()


def kinds_view(asked: Asked) -> KindsView:
    """Everything that defines an agent here. Raises CannotStart for settings, UsageError for what flags gave."""
    flags = Flags(settings_file=asked.settings_file)
    compat = reads_other_product(asked.home, flags)
    trust = Trust.load(asked.home).verdict(Path(os.path.realpath(asked.cwd)), compat=compat)
    team, _ = definition_of(trust)
    places = places_of(asked.home, trust.root, compat=compat, agents=asked.agents, plugins=asked.plugins)
    kinds = Kinds(places, team, Trusted(asked.home, trust, compat))
    ignored = tuple(line for plugin in places.plugins for line in _ignored(plugin))
    return KindsView(tuple(_view(entry) for entry in kinds.entries()), ignored)


def kind_views(asked: Asked, name: str) -> list[KindView]:
    """Every definition of that name, the one that holds first. Raises UsageError naming the nearest."""
    every = kinds_view(asked).kinds
    found = [view for view in every if view.name.lower() == name.lower()]
    found.sort(key=lambda view: view.state != "used")
    if found:
        return found
    close = nearest(name, [view.name for view in every])
    raise UsageError(
        "usage",
        f"there is no agent type {name[:80]!r}",
        do=[f"did you mean {close}?", "teamwright agents list"] if close else ["teamwright agents list"],
    )


def _ignored(plugin: Plugin) -> list[str]:
    what = "not read; of a plugin agents, skills, commands, hooks and MCP servers are"
    return [f"{plugin.path / part}: {what}" for part in plugin.ignored]


def _view(entry: Entry) -> KindView:
    found, kind = entry.found, entry.found.definition
    if kind is None:
        return KindView(found.name, entry.state, found.source, found.file, found.problem)
    why = f"by {entry.by}" if entry.by else "teamwright trust" if entry.state == "needs trust" else ""
    refused = ""
    try:
        require_possible(kind)
    except UsageError as problem:
        refused = problem.what
    return KindView(
        found.name,
        entry.state,
        found.source,
        found.file,
        why,
        kind.description,
        kind.prompt,
        _fields(kind),
        found.warnings,
        refused,
    )


def _fields(kind: AgentDefinition) -> dict[str, Any]:
    """What a definition says beside its name and its words, as files spell it; what it does not say is left out."""
    said: dict[str, Any] = {
        "tools": None if kind.tools is None else list(kind.tools),
        "disallowedTools": [*kind.disallowed_tools, *kind.denied],
        "model": kind.model,
        "effort": kind.effort,
        "permissionMode": kind.mode,
        "background": kind.background,
        "isolation": kind.isolation,
        "maxTurns": kind.max_turns,
        "color": kind.color,
        "memory": kind.memory,
        "requiredMcpServers": list(kind.required_mcp_servers),
        "mcpServers": list(kind.mcp_servers),
        "hooks": [f"{hook.event} {hook.matcher or '*'}: {hook.command}" for hook in kind.hooks],
        "skills": list(kind.skills),
        "initialPrompt": kind.initial_prompt,
        "readOnly": kind.read_only,
    }
    empty: tuple[object, ...] = (None, False, "")
    return {name: value for name, value in said.items() if value not in empty and (value != [] or name == "tools")}
