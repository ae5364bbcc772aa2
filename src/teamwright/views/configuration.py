"""The agent types and MCP servers of a directory, as shown to a person: a row for each entry, with its state.

A run under the saved trust reads the same entries. Servers of another product can be imported from its state file,
`~/.claude.json`. Starts no server; secrets are masked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec import Struct, field

from teamwright.agent.agent_type import AgentType
from teamwright.config.agent_types import AgentTypeEntry, AgentTypes, definition_sources
from teamwright.config.mcp_settings import reading_of
from teamwright.config.plugins import Plugin, PluginSource, installed_plugins, read_plugin
from teamwright.config.project_mcp_file import SERVERS, command_of
from teamwright.config.settings.edit import Target
from teamwright.config.settings.merge import reads_other_product
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings.show import SettingsQuery, SettingValue, values
from teamwright.config.trust import TrustStore, repository_of
from teamwright.mcp.server_config import ServerConfig, parse_entry
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import did_you_mean, nearest
from teamwright.session.agents.specs import TrustedDefinitions, require_possible
from teamwright.session.preparation import load_team_definition
from teamwright.storage.files import read_plain
from teamwright.storage.paths import Home
from teamwright.views.configuration_sources import AssetQuery, load_subject

# ── agent types ────────────────────────────────────────────────────────────────────────────────────────────────


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
    ignored = tuple(line for plugin in places.plugins for line in _unread_parts(plugin))
    return AgentTypesView(tuple(_type_view(entry) for entry in kinds.entries()), ignored)


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


def _unread_parts(plugin: Plugin) -> list[str]:
    what = "not read; of a plugin agents, skills, commands, hooks and MCP servers are"
    return [f"{plugin.path / part}: {what}" for part in plugin.ignored]


def _type_view(entry: AgentTypeEntry) -> AgentTypeView:
    found = entry.source
    kind = found.definition
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
        _type_fields(kind),
        found.warnings,
        refused,
    )


def _type_fields(kind: AgentType) -> dict[str, Any]:
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


# ── MCP servers ────────────────────────────────────────────────────────────────────────────────────────────────


class McpServerView(Struct, frozen=True):
    """One entry. `transport` is stdio, http, sse or sdk; `target` its program or address without secrets.

    `state` and `why` are as in `check`; `entry` is the entry with secrets masked; `file` and `line` are its place.
    """

    name: str
    transport: str
    target: str
    state: str
    why: str
    file: str
    line: int
    entry: Mapping[str, Any]


def mcp_server_views(query: SettingsQuery) -> list[McpServerView]:
    """Return every entry of every settings file and of `.mcp.json`, those of one name together."""
    found = [_server_view(value) for value in values(query) if value.key == SERVERS]
    names = list(dict.fromkeys(view.name for view in found))
    return sorted(found, key=lambda view: (names.index(view.name), view.state != "used"))


def find_mcp_servers(query: SettingsQuery, name: str) -> list[McpServerView]:
    """Return the entries with this name, the one in use first. Raises UsageError with the nearest name."""
    every = mcp_server_views(query)
    found = [view for view in every if view.name == name]
    if not found:
        known = list(dict.fromkeys(view.name for view in every))
        do = did_you_mean(name, known, ["teamwright mcp list"])
        raise UsageError("usage", f"there is no MCP server {name[:80]!r}", do=do, note="nothing was changed")
    return found


def load_server_config(query: SettingsQuery, name: str) -> ServerConfig:
    """Return the server of that name as a run here would use it. Raises UsageError for one that is not used."""
    subject = load_subject(AssetQuery(query.home, query.cwd, dict(os.environ), query.settings_file))
    for part in subject.survey.parts:
        if part.key != SERVERS or part.name != name or part.state != "used":
            continue
        of_repository = part.layer.origin.of_repository
        variables = subject.variables(of_repository=of_repository)
        withheld = subject.withheld if of_repository else None
        reading = reading_of(str(part.path), subject.root, subject.cwd, variables, withheld)
        read = parse_entry(name, part.value, reading)
        if read.config is not None:
            return read.config
        raise UsageError("usage", f"the MCP server {name[:80]!r} is left out: {read.reason}", note="nothing was done")
    first = find_mcp_servers(query, name)[0]
    why = f"{first.state}{f': {first.why}' if first.why else ''}"
    do = ["teamwright trust"] if first.state == "needs trust" else ["teamwright check"]
    raise UsageError("usage", f"the MCP server {name[:80]!r} is not used here: {why}", do=do, note="nothing was done")


def _server_view(value: SettingValue) -> McpServerView:
    raw: object = value.value
    entry = cast("Mapping[str, Any]", raw) if isinstance(raw, dict) else dict[str, Any]()
    kind = entry.get("type", "http" if "url" in entry and "command" not in entry else "stdio")
    transport = str(kind) if kind in {"stdio", "sse", "sdk"} else "http"
    target = command_of(entry) if transport == "stdio" else _without_query(str(entry.get("url", "")))
    return McpServerView(value.name, transport, target, value.state, value.why, value.file, value.line, entry)


def _without_query(url: str) -> str:
    """Return the address without its query, which may contain a secret."""
    try:
        return urlsplit(url)._replace(query="", fragment="").geturl()
    except ValueError:
        return ""


# ── servers of another product ─────────────────────────────────────────────────────────────────────────────────

ImportState: TypeAlias = Literal["new", "there", "broken"]


class ImportableServer(Struct, frozen=True):
    """One server: where it is, where it would go, and whether it can be taken over, or why not."""

    name: str
    what: str
    state: ImportState
    why: str = ""
    entry: Mapping[str, Any] = {}
    origin: str = ""
    target: Target = "user"


def importable_servers(file: Path, query: SettingsQuery) -> list[ImportableServer]:
    """Return the servers of a file for this directory: those of every project first. Raises UsageError."""
    content = _read_state_file(file)
    root = repository_of(query.cwd)
    known = {view.name for view in mcp_server_views(query)}
    found: list[ImportableServer] = []
    for origin, target, servers in _parts_for(content, file, root, query.cwd):
        reading = reading_of(origin, root, query.cwd, dict(os.environ), None)
        for name, entry in servers.items():
            read = parse_entry(name, entry, reading)
            state: ImportState = "there" if name in known else "broken" if read.is_broken else "new"
            why = "a server of this name is configured here" if name in known else read.reason
            fields = _object(entry)
            found.append(ImportableServer(name, _server_summary(fields), state, why, fields, origin, target))
            known.add(name)
    return found


_STATE_FILE_MOST = 64_000_000


def _read_state_file(file: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(read_plain(file, _STATE_FILE_MOST))
    except FileNotFoundError:
        raise UsageError(
            "usage", f"there is no file {file}", do=["teamwright import --from FILE"], note="nothing was changed"
        ) from None
    except (OSError, ValueError, RecursionError) as problem:
        what = f"{file} cannot be read: {str(problem)[:120]}"
        raise UsageError("usage", what, note="nothing was changed") from None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _parts_for(
    content: Mapping[str, Any], file: Path, root: Path, cwd: Path
) -> Iterator[tuple[str, Target, dict[str, Any]]]:
    """Yield the origin, the target and the servers of each part that concerns this directory."""
    yield f"{file}, for every project", "user", _object(content.get(SERVERS))
    for path, project in _object(content.get("projects")).items():
        if os.path.realpath(path) in {str(root), str(cwd)}:
            yield f"{file}, for {path}", "local", _object(_object(project).get(SERVERS))


def _server_summary(entry: Mapping[str, Any]) -> str:
    """Return the command or the address, and the names of variables and headers without their values."""
    parts = [command_of(dict(entry)) or str(entry.get("url", "")).partition("?")[0]]
    for key in ("env", "headers"):
        if names := ", ".join(_object(entry.get(key))):
            parts.append(f"({key}: {names})")
    return " ".join(parts)


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
