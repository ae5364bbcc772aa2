"""The configured MCP servers of a directory as shown to a person: one row for each entry of each file.

Depends on settings with their trust. Starts no server; secrets are masked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from teamwright.config.mcp_config import reading_of
from teamwright.config.project_mcp import SERVERS, command_of
from teamwright.config.setting_values import SettingsQuery, SettingValue, values
from teamwright.mcp.server_config import ServerConfig, parse_entry
from teamwright.protocol.errors import UsageError
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.views.assets import AssetQuery, load_subject


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
    found = [_view(value) for value in values(query) if value.key == SERVERS]
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
        withheld = subject.withheld if part.layer.origin.of_repository else None
        reading = reading_of(str(part.path), subject.root, subject.cwd, subject.variables, withheld)
        read = parse_entry(name, part.value, reading)
        if read.config is not None:
            return read.config
        raise UsageError("usage", f"the MCP server {name[:80]!r} is left out: {read.reason}", note="nothing was done")
    first = find_mcp_servers(query, name)[0]
    why = f"{first.state}{f': {first.why}' if first.why else ''}"
    do = ["teamwright trust"] if first.state == "needs trust" else ["teamwright check"]
    raise UsageError("usage", f"the MCP server {name[:80]!r} is not used here: {why}", do=do, note="nothing was done")


def _view(value: SettingValue) -> McpServerView:
    given: object = value.value
    entry = cast("Mapping[str, Any]", given) if isinstance(given, dict) else dict[str, Any]()
    kind = entry.get("type", "http" if "url" in entry and "command" not in entry else "stdio")
    transport = str(kind) if kind in {"stdio", "sse", "sdk"} else "http"
    target = command_of(entry) if transport == "stdio" else _address(str(entry.get("url", "")))
    return McpServerView(value.name, transport, target, value.state, value.why, value.file, value.line, entry)


def _address(url: str) -> str:
    """Return the address without its query, which may contain a secret."""
    try:
        return urlsplit(url)._replace(query="", fragment="").geturl()
    except ValueError:
        return ""
