"""Entries of our own members in config.json, and their incarnations in the state of the team: changed in one step each.

The file and this process's memory change together. Leaves to the roster watcher when an entry is compared with the
file: the watcher takes every other content for the work of another program. Depends on roster and documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from teamwright.permissions.verdict import Mode
from teamwright.protocol.budget import Budget
from teamwright.protocol.roster import RosterMember, TeamConfig
from teamwright.team_records.incarnation import Incarnation
from teamwright.team_records.life_cycle import BUSY_STATES, ENDED_STATES
from teamwright.team_records.shared_document import Document
from teamwright.team_records.team_state_file import TeamFile
from teamwright.teams.backend import Location
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate


async def begin_incarnation(state: Document[TeamFile], name: str, make: Callable[[int], Incarnation]) -> Incarnation:
    """Record one more incarnation of a member; `make` receives its number, from 1, never used twice for a name."""
    incarnation: Incarnation | None = None

    def begun(file: TeamFile) -> TeamFile:
        nonlocal incarnation
        incarnation = make(file.next_incarnation(name))
        return file.with_incarnation(name, incarnation)

    await state.change(begun)
    assert incarnation is not None
    return incarnation


async def save_budget(state: Document[TeamFile], name: str, budget: Budget) -> None:
    """Record the caps of the member's incarnation, also for a resume."""
    await _change_incarnation(state, name, lambda incarnation: replace(incarnation, budget=budget))


async def save_location(state: Document[TeamFile], name: str, location: Mapping[str, Any] | None) -> None:
    """Record the location of the member's separate process; None: it runs in the lead's from now on."""
    await _change_incarnation(state, name, lambda incarnation: replace(incarnation, place=location))


async def save_model(state: Document[TeamFile], name: str, model: str) -> None:
    """Record the model of the member's incarnation, also for a resume."""
    await _change_incarnation(state, name, lambda incarnation: replace(incarnation, model=model))


async def save_mode(state: Document[TeamFile], name: str, mode: Mode) -> None:
    """Record the permission mode of the member's incarnation, also for a resume; `bubble`: its lead's."""
    await _change_incarnation(
        state, name, lambda incarnation: replace(incarnation, mode="" if mode is Mode.BUBBLE else str(mode))
    )


async def _change_incarnation(
    state: Document[TeamFile], name: str, change: Callable[[Incarnation], Incarnation]
) -> None:
    """Change the present incarnation of that name; does nothing without one. Raises StorageError, LockTimeout."""

    def changed(file: TeamFile) -> TeamFile:
        incarnation = file.incarnation_records.get(name.lower())
        return (
            file
            if incarnation is None
            else replace(file, incarnation_records={**file.incarnation_records, name.lower(): change(incarnation)})
        )

    await state.change(changed)


EntryChange = Callable[[RosterMember], RosterMember]


def is_written_by_lead(team: SessionTeam) -> bool:
    """Return True in a member process, whose entry the lead's process writes."""
    return team.ports.report_end is not None and not team.external.led_externally


async def change_entry(team: SessionTeam, name: str, change: EntryChange) -> TeamConfig:
    """Change the entry of this member. Raises StorageError, LockTimeout; then nothing is changed."""
    return await change_entries(team, {name: change})


async def change_entries(team: SessionTeam, changes: Mapping[str, EntryChange]) -> TeamConfig:
    """Change the entries of these members; a name that is not on the roster is left out. Raises as `change_entry`."""
    entries = team.external.own_entries
    before = {name: entries[name] for name in changes if name in entries}

    def changed(config: TeamConfig) -> TeamConfig:
        for name, change in changes.items():
            if (entry := entries.get(name)) is not None:
                entries[name] = change(entry)
            if (found := config.find(name)) is not None:
                config = config.with_member(change(found))
        return config

    try:
        return await team.roster.change(changed)
    except BaseException:
        entries.update({name: entry for name, entry in before.items() if name in entries})
        raise


def set_location(location: Location) -> EntryChange:
    """Return the change of an entry whose member runs at this location from now on."""
    return lambda entry: replace(entry, pane_id=location.id, backend_type=location.kind)


async def save_mode_everywhere(team: SessionTeam, teammate: Teammate) -> None:
    """Write the member's present mode into team.json, which a resume reads, and into the roster, which others read.

    Raises StorageError, LockTimeout.
    """
    await save_mode(team.state, teammate.name, teammate.own_mode)
    await change_entry(team, teammate.name, lambda entry: replace(entry, mode=_roster_mode(teammate, entry)))


async def update_entries(team: SessionTeam) -> TeamConfig | None:
    """Bring the entries of our members up to date: the mode, and of a member process whether a turn runs.

    Returns the roster when something was written. Raises StorageError, LockTimeout.
    """
    stale: dict[str, EntryChange] = {}
    for name, teammate in list(team.members.items()):
        entry = team.external.own_entries.get(name)
        if entry is None or (present := _current_entry(teammate, entry)) is entry or present == entry:
            continue
        if not teammate.is_external and entry.mode != present.mode:
            await save_mode(team.state, teammate.name, teammate.own_mode)
        stale[teammate.name] = lambda entry, teammate=teammate: _current_entry(teammate, entry)
    return await change_entries(team, stale) if stale else None


def _current_entry(teammate: Teammate, entry: RosterMember) -> RosterMember:
    """Return the entry with the member's present values."""
    if teammate.keeps_place:
        return replace(entry, is_active=False) if entry.is_active else entry
    if teammate.state in ENDED_STATES or teammate.end_cause:
        return entry
    mode, is_active = _roster_mode(teammate, entry), entry.is_active
    if isinstance(teammate, ProcessTeammateBase) and (is_active is not None or teammate.turns):
        is_active = teammate.state in BUSY_STATES
    if (mode, is_active) == (entry.mode, entry.is_active):
        return entry  # the usual case, for each member of a large team
    return replace(entry, mode=mode, is_active=is_active)


def _roster_mode(teammate: Teammate, entry: RosterMember) -> str | None:
    """Return the member's own mode; None for one that follows the lead's."""
    if teammate.is_external:  # only its program knows its present mode
        return entry.mode if entry.mode is None else teammate.mode
    mode = teammate.own_mode
    return None if mode is Mode.BUBBLE else str(mode)
