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

from teamwright.app.members.places import Places
from teamwright.app.members.settings import places_settings
from teamwright.app.settings.files import Origin, read_layer
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.values import dataclass
from teamwright.storage.lease import lease_holder
from teamwright.storage.paths import Home
from teamwright.storage.processes.family import Family, Look, start_of
from teamwright.storage.processes.leftovers import end_leftovers
from teamwright.teams.incarnation import Life
from teamwright.teams.member.room import LEASE, room_of
from teamwright.teams.places.place import Spot
from teamwright.teams.places.processes import family_of, runs
from teamwright.teams.places.settings import PlacesSettings
from teamwright.teams.team_file import TeamFile

END_S = 5.0
"""How long a member's process may take to save and end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Outlived:
    """What was ended: names of members, numbers of processes, and of those that would not end."""

    members: tuple[str, ...] = ()
    ended: tuple[int, ...] = ()
    stayed: tuple[int, ...] = ()


async def end_outlived(home: Home, file: TeamFile, names: Collection[str] = ()) -> Outlived:
    """End the processes of these members, of all without names, and what they had left running."""
    lower = {name.lower() for name in names}
    lives = {name: one for name, one in file.lives.items() if one.place is not None and (not lower or name in lower)}
    places = Places(os.environ, _settings(home), logs=home.ours)
    done = await asyncio.gather(*(_end(life, places) for life in lives.values()))
    members = tuple(name for name, (ended, stayed) in zip(lives, done, strict=True) if ended or stayed)
    ended = tuple(pid for pids, _ in done for pid in pids)
    return Outlived(members, ended, tuple(pid for _, pids in done for pid in pids))


def _settings(home: Home) -> PlacesSettings:
    """With the user's recipes; of a file that cannot be read there are none."""
    with suppress(TeamwrightError):
        if (layer := read_layer(home.settings, Origin.USER)) is not None:
            return places_settings(layer.values, dict.fromkeys(layer.values, str(layer.path)))
    return PlacesSettings()


async def _end(life: Life, places: Places) -> tuple[list[int], list[int]]:
    family = _family(life)
    stayed = [row.pid for row in await family.end(END_S)] if family is not None else []
    ended = [family.group] if family is not None and not stayed else []
    left = await asyncio.to_thread(end_leftovers, room_of(Path(life.transcript)))
    ended += [one.pid for one in left if not one.alive]
    await _close(life, places)
    return ended, stayed + [one.pid for one in left if one.alive]


async def _close(life: Life, places: Places) -> None:
    """Its pane goes, if it is still there and bears our tag; one of a terminal that does not answer stays."""
    spot = Spot.from_json(life.place) if life.place is not None else None
    if spot is not None and (place := await places.place_of(spot)) is not None:
        with suppress(CannotStart):
            await place.close(spot)


def _family(life: Life) -> Family | None:
    """The process that holds the member's lease, or the one that was started for it and has none yet."""
    if pid := lease_holder(room_of(Path(life.transcript)) / LEASE):
        return Family.recalled(pid, "", start_of(pid), Look())
    spot = Spot.from_json(life.place) if life.place is not None else None
    return family_of(spot) if spot is not None and runs(spot) else None
