"""Views of agent types: the source of each definition, and whether it is used, shadowed, untrusted or broken.

Reads the definitions that a run would read, under the saved trust.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.agent.agent_type import AgentType
from teamwright.config.agent_types.definition_sources import definition_sources
from teamwright.config.agent_types.registry import AgentTypeEntry, AgentTypes
from teamwright.config.installed_plugins import installed_plugins
from teamwright.config.plugins import Plugin, PluginSource, read_plugin
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings_merge import reads_other_product
from teamwright.config.trust_store import TrustStore
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest
from teamwright.session.agents.specs import TrustedDefinitions, require_possible
from teamwright.session.session_preparation import load_team_definition
from teamwright.storage.paths import Home


class AgentTypeQuery(Struct, frozen=True):
    """The directory to look at, and the definitions that flags add."""

    home: Home
    cwd: Path
    settings_file: Path | str | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugins: Sequence[PluginSource] = ()


class AgentTypeView(Struct, frozen=True):
    """One definition. `state` is used, shadowed, needs trust or broken; `why` names the other definition or the fault.

    `fields` are its entries as in the file; `refused` is the reason why it cannot be started.
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


class AgentTypesView(Struct, frozen=True):
    """All definitions in order of precedence, and the parts of plugins that are not read."""

    kinds: tuple[AgentTypeView, ...]
    ignored: tuple[str, ...] = ()


def agent_types_view(query: AgentTypeQuery) -> AgentTypesView:
    """Return all agent definitions here. Raises CannotStart for settings, UsageError for definitions of flags."""
    flags = SettingFlags(settings_file=query.settings_file)
    compat = reads_other_product(query.home, flags)
    trust = TrustStore.load(query.home).verdict(Path(os.path.realpath(query.cwd)), compat=compat)
    team, _ = load_team_definition(trust)
    plugins = [*(read_plugin(source) for source in query.plugins), *installed_plugins(query.home)[0]]
    places = definition_sources(query.home, trust.root, compat=compat, agents=query.agents, plugins=plugins)
    kinds = AgentTypes(places, team, TrustedDefinitions(query.home, trust, compat))
    ignored = tuple(line for plugin in places.plugins for line in _ignored(plugin))
    return AgentTypesView(tuple(_view(entry) for entry in kinds.entries()), ignored)


def find_agent_types(query: AgentTypeQuery, name: str) -> list[AgentTypeView]:
    """Return each definition of that name, the one in use first. Raises UsageError with the most similar name."""
    every = agent_types_view(query).kinds
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


def _view(entry: AgentTypeEntry) -> AgentTypeView:
    found, kind = entry.source, entry.source.definition
    if kind is None:
        return AgentTypeView(found.name, entry.state, found.source, found.file, found.problem)
    why = f"by {entry.shadowed_by}" if entry.shadowed_by else "teamwright trust" if entry.state == "needs trust" else ""
    refused = ""
    try:
        require_possible(kind)
    except UsageError as problem:
        refused = problem.what
    return AgentTypeView(
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


def _fields(kind: AgentType) -> dict[str, Any]:
    """Return the fields of a definition besides name and prompt, as in files; unset fields are left out."""
    fields: dict[str, Any] = {
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
        "hooks": [f"{hook.event} {hook.matcher or '*'}: {hook.line}" for hook in kind.hooks],
        "skills": list(kind.skills),
        "initialPrompt": kind.initial_prompt,
        "readOnly": kind.read_only,
    }
    empty: tuple[object, ...] = (None, False, "")
    return {name: value for name, value in fields.items() if value not in empty and (value != [] or name == "tools")}
