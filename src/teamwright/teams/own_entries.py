"""Roster entries of our own members: changed in config.json and in this process's memory in one step.

Depends on the roster and on the members of this process. Leaves to the watcher (`scribe`) when an entry is compared
with the file: the watcher takes every other content for the work of another program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from teamwright.permissions.verdict import Mode
from teamwright.protocol.roster import Member, TeamConfig
from teamwright.teams.lifecycle import BUSY, GONE
from teamwright.teams.member.away import Away
from teamwright.teams.member.mate import Mate
from teamwright.teams.places.place import Spot
from teamwright.teams.team import Team
from teamwright.teams.team_file import keep_mode

Change = Callable[[Member], Member]


def lead_writes(team: Team) -> bool:
    """True in a member process, whose entry the lead's process writes."""
    return team.departed is not None and not team.outside.led_outside


async def change_entry(team: Team, name: str, change: Change) -> TeamConfig:
    """Change the entry of this member. Raises StorageError, LockTimeout; then nothing is changed."""
    return await change_entries(team, {name: change})


async def change_entries(team: Team, changes: Mapping[str, Change]) -> TeamConfig:
    """Change the entries of these members; a name that is not on the roster is left out. Raises as `change_entry`."""
    entries = team.outside.entries
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


def settled_at(spot: Spot) -> Change:
    """The change of an entry whose member runs at this spot from now on."""
    return lambda entry: replace(entry, pane_id=spot.id, backend_type=spot.kind)


async def note_mode(team: Team, mate: Mate) -> None:
    """Write the member's present mode into team.json, which a resume reads, and into the roster, which others read.

    Raises StorageError, LockTimeout.
    """
    await keep_mode(team.home, team.directory, mate.name, mate.own_mode)
    await change_entry(team, mate.name, lambda entry: replace(entry, mode=_mode(mate, entry)))


async def note_members(team: Team) -> TeamConfig | None:
    """Bring the entries of our members up to date: the mode, and of a member process whether a turn runs.

    Returns the roster when something was written. Raises StorageError, LockTimeout.
    """
    stale: dict[str, Change] = {}
    for mate in list(team.members.values()):
        entry = team.outside.entries.get(mate.name)
        present = entry if entry is None else _present(mate, entry)
        if entry is None or present == entry:
            continue
        if not mate.external and present is not None and entry.mode != present.mode:
            await keep_mode(team.home, team.directory, mate.name, mate.own_mode)
        stale[mate.name] = lambda entry, mate=mate: _present(mate, entry)
    return await change_entries(team, stale) if stale else None


def _present(mate: Mate, entry: Member) -> Member:
    """The entry as the member is now."""
    if mate.kept:
        return replace(entry, is_active=False) if entry.is_active else entry
    if mate.state in GONE or mate.leaving:
        return entry
    entry = replace(entry, mode=_mode(mate, entry))
    if not isinstance(mate, Away) or (entry.is_active is None and not mate.turns):
        return entry
    return replace(entry, is_active=mate.state in BUSY)


def _mode(mate: Mate, entry: Member) -> str | None:
    """The member's own mode; None for one that follows the lead's."""
    if mate.external:  # what it is in is its program's business
        return entry.mode if entry.mode is None else mate.mode
    return None if mate.own_mode is Mode.BUBBLE else str(mate.own_mode)
