"""Words for completion: names on disk, such as teams and sessions, and names from tables, such as models and settings.

For speed only directories and the few lines with names are read, up to a limit and without locks; files that cannot be
read are skipped. Each table is imported when it is asked for. No service is asked.
"""

from __future__ import annotations

import heapq
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from teamwright.git.repository import work_tree
from teamwright.protocol.ids import display_name
from teamwright.requests.request_store import RequestStore
from teamwright.storage.paths import Home, find_home


class NameOnDisk(NamedTuple):
    """A name and a description of it."""

    text: str
    about: str = ""


class TeamNames(NamedTuple):
    """A team's name and those of its members, the lead first."""

    name: str
    members: tuple[str, ...]


def home_named(root: str | None) -> Home:
    """Return the home of that path, else the environment's, else the user's own. Nothing is created there.

    Raises CannotStart (`read-only-home`) when it cannot be read.
    """
    return find_home(root).require_readable()


# ── names on disk ──────────────────────────────────────────────────────────────────────────────────────────────

MOST = 200
"""Maximum number of offered names of one sort."""

ROSTER_MOST = 1_000_000
"""Maximum bytes of a roster that is read."""

SESSIONS_MOST = 20
"""Maximum number of offered sessions, the newest first."""


def teams(home: Home) -> Iterator[TeamNames]:
    """Yield the teams on disk."""
    for directory in _directories(home.shared / "teams"):
        roster = _json(home.shared / "teams" / directory / "config.json")
        name = str(roster.get("name") or directory)
        rows: object = roster.get("members")
        members = [_member_name(row) for row in cast("list[Any]", rows)] if isinstance(rows, list) else []
        yield TeamNames(name, tuple(one for one in members if one))


def _member_name(row: object) -> str:
    name = str(cast("dict[str, Any]", row).get("name") or "") if isinstance(row, dict) else ""
    return display_name(name)


def task_lists(home: Home) -> Iterator[str]:
    """Yield the task lists on disk."""
    yield from _directories(home.shared / "tasks")


def sessions(home: Home, cwd: Path) -> list[NameOnDisk]:
    """Return the newest sessions of a directory, by the beginning of their ids."""
    found: list[tuple[float, str]] = []
    for entry in _entries(home.project(cwd)):
        if entry.name.endswith(".jsonl"):
            try:
                found.append((entry.stat().st_mtime, entry.name.removesuffix(".jsonl")))
            except OSError:
                continue
    newest = heapq.nlargest(SESSIONS_MOST, found)
    return [
        NameOnDisk(id[:8], "session of " + time.strftime("%Y-%m-%d %H:%M", time.localtime(changed)))
        for changed, id in newest
    ]


def requests(home: Home) -> Iterator[NameOnDisk]:
    """Yield the open requests of teams and sessions, by their ids."""
    boxes = [(team, RequestStore.of_team(home, team).directory) for team in _directories(home.shared / "teams")]
    for project in _directories(home.own / "projects"):
        place = home.own / "projects" / project
        boxes += [(f"session {id[:8]}", place / id / "requests") for id in _directories(place)]
    for whose, box in boxes:
        files = {entry.name for entry in _entries(box) if entry.name.endswith(".json")}
        for file in sorted(files):
            stem = file.removesuffix(".json")
            if not stem.endswith(".answer") and f"{stem}.answer.json" not in files:
                yield NameOnDisk(unquote(stem), whose)


def agent_types(home: Home, cwd: Path) -> Iterator[str]:
    """Yield agent types by the names of their files: the repository's, then the user's."""
    root = work_tree(cwd) or cwd
    places = [root / name / "agents" for name in (".teamwright", ".claude")]
    places += [home.own / "agents", Path(os.path.expanduser("~/.claude/agents"))]
    for place in places:
        for entry in _entries(place):
            if entry.name.endswith(".md"):
                yield entry.name.removesuffix(".md")


def names_under_setting(home: Home, *keys: str) -> list[str]:
    """Return the names under a key of the user's own settings file, e.g. `members`, `adapters`."""
    rows = _json(home.settings)
    for key in keys:
        below: object = rows.get(key)
        rows = cast("dict[str, Any]", below) if isinstance(below, dict) else {}
    return [str(name) for name in rows]


def _directories(parent: Path) -> list[str]:
    names = [entry.name for entry in _entries(parent) if entry.is_dir() and not entry.name.startswith(".")]
    return sorted(names)[:MOST]


def _entries(parent: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(parent) as found:
            return list(found)
    except OSError:
        return []


def _json(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():  # not a pipe either, whose opening would block
            return {}
        with open(path, "rb") as file:
            value: object = json.loads(file.read(ROSTER_MOST))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


# ── names from tables ──────────────────────────────────────────────────────────────────────────────────────────

OWN = "your own"


def model_names(home: Home) -> Iterator[NameOnDisk]:
    """Yield values of `--model`: aliases, known ids, and the prefixes `provider/`."""
    from teamwright.models.names import aliases, known_ids
    from teamwright.models.provider_table import PROVIDERS

    yield from (NameOnDisk(alias, wire) for alias, wire in aliases().items())
    yield from map(NameOnDisk, known_ids())
    for provider in PROVIDERS.values():
        yield from (
            NameOnDisk(f"{provider.id}/{wire}") for wire in known_ids(provider.id) if provider.id != "anthropic"
        )
        yield NameOnDisk(f"{provider.id}/", provider.title)
    yield from (NameOnDisk(f"{name}/", OWN) for name in names_under_setting(home, "providers"))
    yield from (NameOnDisk(name, "your own price") for name in names_under_setting(home, "prices"))


def provider_names(home: Home) -> Iterator[NameOnDisk]:
    """Yield model services."""
    from teamwright.models.provider_table import PROVIDERS

    yield from (NameOnDisk(row.id, row.title) for row in PROVIDERS.values())
    yield from (NameOnDisk(name, OWN) for name in names_under_setting(home, "providers"))


def backend_names(home: Home) -> Iterator[NameOnDisk]:
    """Yield backends of members."""
    from teamwright.backends.terminal_adapter import shipped_adapters

    yield from map(NameOnDisk, ("auto", "in-process", "tmux", "detached"))
    yield from (NameOnDisk(name, OWN) for name in names_under_setting(home, "members", "adapters"))
    yield from (NameOnDisk(name, "adapter") for name in shipped_adapters())


def agent_type_names(home: Home, cwd: Path) -> Iterator[NameOnDisk]:
    """Yield agent types: those that files define here, and the built-in ones."""
    from teamwright.agent.agent_type import built_in_types

    yield from map(NameOnDisk, agent_types(home, cwd))
    yield from (NameOnDisk(name, "built in") for name in built_in_types())


def effort_levels() -> list[NameOnDisk]:
    from teamwright.models.effort import LEVELS

    return [NameOnDisk(level) for level in LEVELS]


def setting_names() -> list[NameOnDisk]:
    """Return the settings by their names in a file."""
    from teamwright.config.settings.keys import setting_keys

    return [NameOnDisk(name, key.meaning) for name, key in setting_keys().items()]


def setting_values(home: Home, name: str) -> list[NameOnDisk]:
    """Return the allowed values of a setting; empty for unknown settings and those with free values."""
    from teamwright.config.settings.keys import setting_keys

    key = setting_keys().get(name)
    if key is None:
        return []
    if key.is_switch:
        return [NameOnDisk("true"), NameOnDisk("false")]
    lists = {"model": model_names, "members.backend": backend_names}
    found = lists[name](home) if name in lists else effort_levels() if name == "effort" else map(NameOnDisk, key.words)
    return list(found)
