"""Orphaned member processes: found by their leases, and stopped with all that they run.

Each member saves and keeps its place in the team, as at the end of its grace period; its pane is closed. Depends on
team files, leases, processes and backends. Only for a team without a lead.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from teamwright.backends.session_backends import BackendChoice
from teamwright.backends.settings import BackendSettings
from teamwright.backends.watched_process import is_running, process_tree
from teamwright.config.settings.files import SettingsOrigin, read_layer
from teamwright.processes.process_records import end_orphans
from teamwright.processes.process_tree import ProcessSnapshot, ProcessTree, process_start
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.storage.file_lease import lease_holder, lease_path
from teamwright.storage.paths import Home
from teamwright.team_records.team_state import Incarnation, TeamFile, process_directory
from teamwright.teams.backend import Location

END_S = 5.0
"""Seconds for a member's process to save and exit after SIGTERM."""


class EndedOrphans(Struct, frozen=True):
    """The result: names of members, ids of processes, and ids of those that did not exit."""

    members: tuple[str, ...] = ()
    ended: tuple[int, ...] = ()
    stayed: tuple[int, ...] = ()


async def stop_orphan_members(home: Home, file: TeamFile, names: Collection[str] = ()) -> EndedOrphans:
    """End the processes of these members (empty: all), and processes that they left running."""
    lower = {name.lower() for name in names}
    incarnations = {
        name: one
        for name, one in file.incarnation_records.items()
        if one.place is not None and (not lower or name in lower)
    }
    places = BackendChoice(os.environ, _settings(home), logs=home.own)
    done = await asyncio.gather(*(_end(incarnation, places) for incarnation in incarnations.values()))
    members = tuple(name for name, (ended, stayed) in zip(incarnations, done, strict=True) if ended or stayed)
    ended = tuple(pid for pids, _ in done for pid in pids)
    return EndedOrphans(members, ended, tuple(pid for _, pids in done for pid in pids))


def _settings(home: Home) -> BackendSettings:
    """Return the settings with the user's terminal adapters, or without any when the file cannot be read."""
    with suppress(TeamwrightError):
        if (layer := read_layer(home.settings, SettingsOrigin.USER)) is not None:
            from teamwright.config.settings.sections import parse_backend_settings

            return parse_backend_settings(layer.values, dict.fromkeys(layer.values, str(layer.path)))
    return BackendSettings()


async def _end(incarnation: Incarnation, places: BackendChoice) -> tuple[list[int], list[int]]:
    family = _process_of(incarnation)
    stayed = [row.pid for row in await family.terminate(END_S)] if family is not None else []
    ended = [family.group] if family is not None and not stayed else []
    left = await asyncio.to_thread(end_orphans, process_directory(Path(incarnation.transcript)))
    ended += [one.pid for one in left if not one.is_alive]
    await _close(incarnation, places)
    return ended, stayed + [one.pid for one in left if one.is_alive]


async def _close(incarnation: Incarnation, places: BackendChoice) -> None:
    """Close the pane, if it exists and has the member's tag; the pane of an unresponsive terminal stays."""
    location = Location.from_json(incarnation.place) if incarnation.place is not None else None
    if location is not None and (place := await places.backend_for(location)) is not None:
        with suppress(CannotStart):
            await place.close(location)


def _process_of(incarnation: Incarnation) -> ProcessTree | None:
    """Return the process with the member's lease, or the one that was started for it and has no lease yet."""
    if pid := lease_holder(lease_path(process_directory(Path(incarnation.transcript)))):
        return ProcessTree.from_record(pid, "", process_start(pid), ProcessSnapshot())
    location = Location.from_json(incarnation.place) if incarnation.place is not None else None
    return process_tree(location) if location is not None and is_running(location) else None
