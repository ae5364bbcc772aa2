"""Processes of members that outlived the lead of their team: found by their leases, and ended with all that they run.

Each saves and keeps its seat in the team, as when its grace is over; the pane that it ran in is closed. Knows team
files, leases, processes and places; does not know who asked. Only for a team that nobody leads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from teamwright.config.backend_settings import parse_backend_settings
from teamwright.config.settings.settings_files import SettingsOrigin, read_layer
from teamwright.processes.orphans import end_orphans
from teamwright.processes.process_tree import ProcessSnapshot, ProcessTree, process_start
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.values import dataclass
from teamwright.session.member_process.backend_choice import BackendChoice
from teamwright.storage.lease import lease_holder
from teamwright.storage.paths import Home
from teamwright.teams.backends.backend import Location
from teamwright.teams.backends.backend_settings import BackendSettings
from teamwright.teams.backends.located_process import is_running, process_tree
from teamwright.teams.incarnation import LEASE, Incarnation, process_directory
from teamwright.teams.team_file import TeamFile

END_S = 5.0
"""How long a member's process may take to save and end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class EndedOrphans:
    """What was ended: names of members, numbers of processes, and of those that would not end."""

    members: tuple[str, ...] = ()
    ended: tuple[int, ...] = ()
    stayed: tuple[int, ...] = ()


async def stop_orphan_members(home: Home, file: TeamFile, names: Collection[str] = ()) -> EndedOrphans:
    """End the processes of these members, of all without names, and what they had left running."""
    lower = {name.lower() for name in names}
    lives = {
        name: one
        for name, one in file.incarnation_records.items()
        if one.place is not None and (not lower or name in lower)
    }
    places = BackendChoice(os.environ, _settings(home), logs=home.own)
    done = await asyncio.gather(*(_end(life, places) for life in lives.values()))
    members = tuple(name for name, (ended, stayed) in zip(lives, done, strict=True) if ended or stayed)
    ended = tuple(pid for pids, _ in done for pid in pids)
    return EndedOrphans(members, ended, tuple(pid for _, pids in done for pid in pids))


def _settings(home: Home) -> BackendSettings:
    """With the user's recipes; of a file that cannot be read there are none."""
    with suppress(TeamwrightError):
        if (layer := read_layer(home.settings, SettingsOrigin.USER)) is not None:
            return parse_backend_settings(layer.values, dict.fromkeys(layer.values, str(layer.path)))
    return BackendSettings()


async def _end(life: Incarnation, places: BackendChoice) -> tuple[list[int], list[int]]:
    family = _process_of(life)
    stayed = [row.pid for row in await family.terminate(END_S)] if family is not None else []
    ended = [family.group] if family is not None and not stayed else []
    left = await asyncio.to_thread(end_orphans, process_directory(Path(life.transcript)))
    ended += [one.pid for one in left if not one.is_alive]
    await _close(life, places)
    return ended, stayed + [one.pid for one in left if one.is_alive]


async def _close(life: Incarnation, places: BackendChoice) -> None:
    """Its pane goes, if it is still there and bears our tag; one of a terminal that does not answer stays."""
    spot = Location.from_json(life.place) if life.place is not None else None
    if spot is not None and (place := await places.backend_for(spot)) is not None:
        with suppress(CannotStart):
            await place.close(spot)


def _process_of(life: Incarnation) -> ProcessTree | None:
    """The process that holds the member's lease, or the one that was started for it and has none yet."""
    if pid := lease_holder(process_directory(Path(life.transcript)) / LEASE):
        return ProcessTree.from_record(pid, "", process_start(pid), ProcessSnapshot())
    spot = Location.from_json(life.place) if life.place is not None else None
    return process_tree(spot) if spot is not None and is_running(spot) else None
