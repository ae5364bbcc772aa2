"""Roster entries of our own members: changed in config.json and in this process's memory in one step.

Depends on the roster and on the members of this process. Leaves to the roster watcher when an entry is compared with
the file: the watcher takes every other content for the work of another program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from teamwright.permissions.verdict import Mode
from teamwright.protocol.roster import RosterMember, TeamConfig
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.backends.backend import Location
from teamwright.teams.incarnation_changes import save_mode
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate
from teamwright.teams.teammate_state_machine import BUSY_STATES, ENDED_STATES

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
