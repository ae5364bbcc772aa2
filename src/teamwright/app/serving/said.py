"""What settings files say of MCP servers, layer by layer: entries by name with whose words they are, and limits.

Entries are kept as they were written: variables are filled in when a session opens. Of a repository an entry holds
only where a person trusted exactly that one, with the scripts of the repository that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from teamwright.app.serving.project import FILE, SERVERS, project_servers
from teamwright.app.settings.fields import filled
from teamwright.app.settings.files import Layer, Origin
from teamwright.app.settings.parts import Part, Parts
from teamwright.app.trust.store import TrustState
from teamwright.app.trust.survey import entry_of, server_entry
from teamwright.protocol.values import dataclass

ENABLE_ALL = "enableAllProjectMcpServers"
ENABLED = "enabledMcpjsonServers"
DISABLED = "disabledMcpjsonServers"
KEYS = frozenset({SERVERS, ENABLE_ALL, ENABLED, DISABLED})
"""Settings that are read here."""

PROJECT, USER, FILES, GIVEN = 1, 0, 2, 3
"""Which entry of a name holds: the one of the highest rank."""


@dataclass(frozen=True, slots=True)
class Said:
    """One entry as it was written. `foreign`: a repository says it, so that it gets no credential of ours.

    `root` is the repository in which it is read, whoever says it.
    """

    name: str
    entry: Any
    source: str
    rank: int
    foreign: bool
    root: Path
    part: Part | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class McpSettings:
    """What holds. `start_s` `call_s` `wait_s` in seconds; `tools` and `size` (bytes) bound what stands in a prefix."""

    servers: tuple[Said, ...] = ()
    start_s: float = 30.0
    call_s: float = 600.0
    wait_s: float = 3.0
    tools: int = 60
    size: int = 24_000


@dataclass(slots=True)
class ServersSaid:
    """Collects over a merge of settings."""

    trust: TrustState
    origins: dict[str, str]
    warnings: list[str]
    parts: Parts = field(default_factory=Parts)
    _said: list[Said] = field(default_factory=list[Said])
    _enable_all: bool | None = None
    _enabled: set[str] = field(default_factory=set[str])
    _disabled: set[str] = field(default_factory=set[str])

    def add(self, layer: Layer, name: str, value: Any) -> None:
        """One setting of one layer."""
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
        """What holds in the end. `compat`: the repository's `.mcp.json` is read."""
        if compat:
            self._project()
        by_name: dict[str, Said] = {}
        for said in sorted(self._said, key=lambda one: one.rank):
            if (other := by_name.get(said.name)) is not None and other.part is not None:
                other.part.becomes("ignored", f"{said.source} is nearer")
            by_name[said.name] = said
        return filled(McpSettings(tuple(by_name.values())), "mcp", values)

    def _servers(self, layer: Layer, entries: Mapping[str, Any]) -> None:
        foreign = layer.origin.of_repository
        rank = FILES if foreign else GIVEN if layer.origin is Origin.GIVEN else USER
        for name, entry in entries.items():
            part = self.parts.add(layer, SERVERS, name, entry, (name,))
            if foreign and not self.trust.allows(server_entry(self.trust.root, layer.path, name, entry)):
                part.becomes("needs trust")
                continue
            self._said.append(Said(name, entry, str(layer.path), rank, foreign, self.trust.root, part))
            self.origins[f"{SERVERS} {name}"] = str(layer.path)

    def _project(self) -> None:
        path = self.trust.root / FILE
        found = project_servers(self.trust.root)
        layer = Layer(path, Origin.COMPAT_SHARED, text=found.text)
        if found.problem:
            self.parts.broken_file(layer, found.problem)
            self.warnings += [f"{path}: left out: {found.problem}"] if self.trust.trusted else []
        for name, entry in found.servers.items():
            part = self.parts.add(layer, SERVERS, name, entry, (name,))
            if unwanted := self._unwanted(name):
                part.becomes("ignored", unwanted)
            elif not self.trust.allows(server_entry(self.trust.root, path, name, entry)):
                part.becomes("needs trust")
            else:
                self._said.append(Said(name, entry, str(path), PROJECT, True, self.trust.root, part))
                self.origins[f"{SERVERS} {name}"] = str(path)

    def _unwanted(self, name: str) -> str:
        """By which setting a server of `.mcp.json` is left out; empty when it is wanted."""
        if name in self._disabled:
            return f"{DISABLED} names it"
        if self._enable_all is False and name not in self._enabled:
            return f"{ENABLE_ALL} is false, and {ENABLED} does not name it"
        return ""

    def _holds(self, layer: Layer, name: str, part: str, value: Any, *at: int) -> bool:
        noted = self.parts.add(layer, name, part, value, at)
        if not layer.origin.of_repository or name == DISABLED:
            return True
        allowed = self.trust.allows(entry_of(layer, self.trust.root, name, part, value))
        if not allowed:
            noted.becomes("needs trust")
        return allowed
