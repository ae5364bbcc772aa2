"""MCP servers in settings files: entries by name with their origin, and limits.

Entries are stored verbatim; variables are filled in when a session opens. An entry of a repository is used only if a
person trusted exactly this entry, with the repository's scripts that it names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.config.project_mcp_file import FILE, MAX_BYTES, SERVERS, project_servers
from teamwright.config.settings.files import SettingsLayer, SettingsOrigin
from teamwright.config.settings.keys import fill
from teamwright.config.settings.setting_parts import SettingPart, SettingParts
from teamwright.config.settings.settings import McpSettings, ServerEntry
from teamwright.config.trust import TrustState
from teamwright.config.trust_entries import entry_of, server_entry
from teamwright.mcp.server_config import ConfigSource, ServerConfig, parse_entry, parse_servers
from teamwright.protocol.errors import UsageError
from teamwright.storage.files import read_plain

ENABLE_ALL = "enableAllProjectMcpServers"
ENABLED = "enabledMcpjsonServers"
DISABLED = "disabledMcpjsonServers"
KEYS = frozenset({SERVERS, ENABLE_ALL, ENABLED, DISABLED})
"""Settings that this module reads."""

PROJECT, USER, FILES, GIVEN = 1, 0, 2, 3
"""Ranks of entries: of several with one name, the one with the highest rank is used."""


class McpSettingsReader(Struct):
    """A collector of MCP settings during a merge of settings."""

    trust: TrustState
    origins: dict[str, str]
    warnings: list[str]
    parts: SettingParts = field(default_factory=SettingParts)
    _entries: list[tuple[ServerEntry, SettingPart]] = field(default_factory=list[tuple[ServerEntry, SettingPart]])
    _enable_all: bool | None = None
    _enabled: set[str] = field(default_factory=set[str])
    _disabled: set[str] = field(default_factory=set[str])

    def add(self, layer: SettingsLayer, name: str, value: Any) -> None:
        """Add one setting of one layer."""
        if name == SERVERS:
            self._servers(layer, cast("Mapping[str, Any]", value))
        elif name == ENABLE_ALL:
            if self._holds(layer, name, "", value):
                self._enable_all = bool(value)
                self.origins[name] = str(layer.path)
        else:
            for at, one in enumerate(cast("list[str]", value)):
                if self._holds(layer, name, one, one, at):
                    (self._disabled if name == DISABLED else self._enabled).add(one)
                    self.origins[f"{name} {one}"] = str(layer.path)

    def settings(self, values: Mapping[str, Any], *, compat: bool) -> McpSettings:
        """Return the merged settings. `compat`: the repository's `.mcp.json` is read."""
        if compat:
            self._project()
        by_name: dict[str, tuple[ServerEntry, SettingPart]] = {}
        for entry, part in sorted(self._entries, key=lambda one: one[0].rank):
            if entry.name in by_name:
                by_name[entry.name][1].set_state("ignored", f"{entry.source} is nearer")
            by_name[entry.name] = (entry, part)
        return fill(McpSettings(tuple(entry for entry, _ in by_name.values())), values)

    def _servers(self, layer: SettingsLayer, entries: Mapping[str, Any]) -> None:
        foreign = layer.origin.of_repository
        rank = FILES if foreign else GIVEN if layer.origin is SettingsOrigin.GIVEN else USER
        for name, entry in entries.items():
            part = self.parts.add(layer, SERVERS, name, entry, (name,))
            if foreign and not self.trust.allows(server_entry(self.trust.root, layer.path, name, entry)):
                part.set_state("needs trust")
                continue
            self._entries.append((ServerEntry(name, entry, str(layer.path), rank, foreign, self.trust.root), part))
            self.origins[f"{SERVERS} {name}"] = str(layer.path)

    def _project(self) -> None:
        path = self.trust.root / FILE
        found = project_servers(self.trust.root)
        layer = SettingsLayer(path, SettingsOrigin.COMPAT_SHARED, text=found.text)
        if found.problem:
            self.parts.broken_file(layer, found.problem)
            self.warnings += [f"{path}: left out: {found.problem}"] if self.trust.trusted else []
        for name, entry in found.servers.items():
            part = self.parts.add(layer, SERVERS, name, entry, (name,))
            if unwanted := self._unwanted(name):
                part.set_state("ignored", unwanted)
            elif not self.trust.allows(server_entry(self.trust.root, path, name, entry)):
                part.set_state("needs trust")
            else:
                self._entries.append((ServerEntry(name, entry, str(path), PROJECT, True, self.trust.root), part))
                self.origins[f"{SERVERS} {name}"] = str(path)

    def _unwanted(self, name: str) -> str:
        """Return the setting that leaves out a server of `.mcp.json`; empty when none does."""
        if name in self._disabled:
            return f"{DISABLED} names it"
        if self._enable_all is False and name not in self._enabled:
            return f"{ENABLE_ALL} is false, and {ENABLED} does not name it"
        return ""

    def _holds(self, layer: SettingsLayer, name: str, part: str, value: Any, *at: int) -> bool:
        noted = self.parts.add(layer, name, part, value, at)
        if not layer.origin.of_repository or name == DISABLED:
            return True
        allowed = self.trust.allows(entry_of(layer, self.trust.root, name, part, value))
        if not allowed:
            noted.set_state("needs trust")
        return allowed


FLAG = "--mcp-config"
PROJECT_DIRECTORY = ("CLAUDE_PROJECT_DIR", "TEAMWRIGHT_PROJECT_DIR")
"""Variables for the root of the repository: entries may name them, and servers have them."""


def configured_servers(
    settings: McpSettings,
    flag_values: Sequence[str],
    cwd: Path,
    variables: Mapping[str, str],
    withheld: frozenset[str],
    *,
    of_repository: Mapping[str, str] | None = None,
) -> tuple[list[ServerConfig], list[str]]:
    """Return the servers by rank, those of a flag first, and lines about entries that are left out.

    `withheld` are variables that no repository's entry receives. `of_repository` are variables that the repository
    sets: only its own entries receive them. Raises UsageError for an unreadable flag.
    """
    found: dict[str, ServerConfig] = {}
    warnings: list[str] = []
    for text in flag_values:
        entries, source = _flag_entries(text, cwd)
        reading = ConfigSource(source, cwd, variables)
        configs, problems = parse_servers(entries, reading)
        # An entry whose variable is not set is left out with a line, as in a file; an invalid one ends the start.
        if len(configs) < len(entries) and any(parse_entry(*one, reading).is_broken for one in entries.items()):
            raise _bad(text, problems[0].partition(": ")[2])
        warnings += problems
        found |= {config.name: config for config in configs}
    for server in reversed(settings.servers):
        if server.name in found:
            continue
        known = {**variables, **(of_repository or {})} if server.foreign else variables
        reading = reading_of(server.source, server.root, cwd, known, withheld if server.foreign else None)
        configs, problems = parse_servers({server.name: server.entry}, reading)
        warnings += problems
        found |= {config.name: config for config in configs}
    return list(found.values()), warnings


def reading_of(
    source: str, root: Path, cwd: Path, variables: Mapping[str, str], withheld: frozenset[str] | None
) -> ConfigSource:
    """Return the rules for reading an entry of a settings file; `withheld` is None for a person's own entry.

    A repository's server runs at the root of the repository, in any session's directory: trust covers the files as
    named from there.
    """
    own = {**variables, **{name: str(root) for name in PROJECT_DIRECTORY}}
    return (
        ConfigSource(source, cwd, own)
        if withheld is None
        else ConfigSource(source, root, own, withheld, is_confined=True)
    )


def _flag_entries(text: str, cwd: Path) -> tuple[Mapping[str, Any], str]:
    """Return the entries of a flag's value, which is JSON or the name of a JSON file."""
    source = FLAG
    content = text
    if not text.lstrip().startswith("{"):
        path = cwd / os.path.expanduser(text)
        try:
            content = read_plain(path, MAX_BYTES).decode("utf-8-sig")
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
            raise _bad(text, f"the file cannot be read: {why}") from None
        source = str(path)
    try:
        read: Any = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise _bad(text, f"it is not JSON: {str(problem)[:100]}") from None
    servers: Any = cast("dict[str, Any]", read).get(SERVERS) if isinstance(read, dict) else None
    if not isinstance(servers, dict):
        raise _bad(text, f"it has no {SERVERS}")
    return cast("Mapping[str, Any]", servers), source


def _bad(text: str, why: str) -> UsageError:
    source = text if not text.lstrip().startswith("{") else "JSON"
    do = ['--mcp-config \'{"mcpServers": {"name": {"command": "…", "args": []}}}\'', "--mcp-config FILE"]
    return UsageError("usage", f"{FLAG}: {why}", looked_at=[("given", source)], do=do, note="nothing was started")
