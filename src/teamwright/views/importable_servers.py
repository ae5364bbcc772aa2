"""MCP servers in the state file of the other product that could be taken over into settings of Teamwright.

`~/.claude.json` has servers for every project and, by directory, servers of one project. Values of variables and
headers may be secrets and are not shown. Reads only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.edit_settings import Target
from teamwright.config.mcp_config import reading_of
from teamwright.config.project_mcp import SERVERS, command_of
from teamwright.config.setting_values import SettingsQuery
from teamwright.config.trust_store import repository_of
from teamwright.mcp.server_config import ParsedServer, parse_entry
from teamwright.protocol.errors import UsageError
from teamwright.storage.read_bounded import read_plain
from teamwright.views.mcp_servers import mcp_server_views

ImportState: TypeAlias = Literal["new", "there", "broken"]

_MOST = 64_000_000


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
    said = _read(file)
    root = repository_of(query.cwd)
    known = {view.name for view in mcp_server_views(query)}
    found: list[ImportableServer] = []
    for origin, target, servers in _places(said, file, root, query.cwd):
        for name, entry in servers.items():
            reading = reading_of(origin, root, query.cwd, dict(os.environ), None)
            found.append(_row(name, _object(entry), parse_entry(name, entry, reading), name in known))
            found[-1] = replace(found[-1], origin=origin, target=target)
            known.add(name)
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        said: Any = json.loads(read_plain(file, _MOST))
    except FileNotFoundError:
        raise UsageError(
            "usage", f"there is no file {file}", do=["teamwright import --from FILE"], note="nothing was changed"
        ) from None
    except (OSError, ValueError, RecursionError) as problem:
        what = f"{file} cannot be read: {str(problem)[:120]}"
        raise UsageError("usage", what, note="nothing was changed") from None
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def _places(said: Mapping[str, Any], file: Path, root: Path, cwd: Path) -> Iterator[tuple[str, Target, dict[str, Any]]]:
    """Yield the origin, the target and the servers of each part that concerns this directory."""
    yield f"{file}, for every project", "user", _object(said.get(SERVERS))
    for path, project in _object(said.get("projects")).items():
        if os.path.realpath(path) in {str(root), str(cwd)}:
            yield f"{file}, for {path}", "local", _object(_object(project).get(SERVERS))


def _row(name: str, entry: dict[str, Any], read: ParsedServer, is_there: bool) -> ImportableServer:
    state: ImportState = "there" if is_there else "broken" if read.is_broken else "new"
    why = "a server of this name is configured here" if is_there else read.reason
    return ImportableServer(name, _summary(entry), state, why, entry)


def _summary(entry: Mapping[str, Any]) -> str:
    """Return the command or the address, and the names of variables and headers without their values."""
    parts = [command_of(dict(entry)) or str(entry.get("url", "")).partition("?")[0]]
    for key in ("env", "headers"):
        if names := ", ".join(_object(entry.get(key))):
            parts.append(f"({key}: {names})")
    return " ".join(parts)


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
