"""What is too old to keep: archived teams, and sessions that nobody will miss.

A session goes when nothing in it changed for the stated days, no process drives it, no team on disk is its own, and
its task list has nothing open. Bounded work a call. Knows sessions, teams and leases; knows no session that runs.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from teamwright.app.ended.naming import NamedTeam, all_teams
from teamwright.app.inspect import task_views
from teamwright.app.looking.sessions import LEASE
from teamwright.app.settings.merging import load_settings, reads_other_product
from teamwright.app.settings.model import Flags
from teamwright.app.trust.store import Trust
from teamwright.protocol.errors import TeamwrightError
from teamwright.storage.lease import Lease, lease_held
from teamwright.storage.paths import Home
from teamwright.tasks.shared import is_shared
from teamwright.tasks.task_list import TaskList
from teamwright.teams.archive import archive_entry, prune_archive
from teamwright.teams.catalogue import session_list

MOST = 20
"""Sessions that one call removes; the next call goes on."""

DAY_S = 86_400.0

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def retention_days(home: Home, cwd: Path, settings_file: Path | None = None) -> int:
    """How long things are kept, by the settings that hold in a directory. Raises CannotStart (`bad-settings`)."""
    flags = Flags(settings_file=settings_file)
    trust = Trust.load(home).verdict(cwd, compat=reads_other_product(home, flags))
    return load_settings(home, cwd, flags, trust).retention_days


async def prune(home: Home, days: float, *, keep: str = "") -> list[str]:
    """Remove what is older than so many days; 0 keeps everything. `keep` is the id of a session that stays.

    Returns the ids of the sessions that are gone. Never raises for what is on the disk: what cannot be removed stays.
    """
    if days <= 0:
        return []
    with suppress(OSError):
        await asyncio.to_thread(prune_archive, home, days=days)
    before = time.time() - days * DAY_S
    await asyncio.to_thread(_remove_snapshots, home, before, keep)
    gone: list[str] = []
    for transcript in await asyncio.to_thread(_outlived, home, before, keep):
        with suppress(TeamwrightError, OSError):
            if await asyncio.to_thread(_remove, transcript, before):
                gone.append(transcript.stem)
                await _put_away_list(home, transcript.stem)
    return gone


def _remove_snapshots(home: Home, before: float, keep: str) -> None:
    """Old snapshots of shells, also of sessions that stay: who still needs one takes it again."""
    for entry in _entries(home.shell_snapshots):
        if not entry.name.startswith(f"{keep}.") and _changed(entry.path) < before:
            with suppress(OSError):
                os.unlink(entry.path)


def _outlived(home: Home, before: float, keep: str) -> list[Path]:
    """The transcripts (there or not) of at most MOST sessions that may go, the oldest first."""
    old = sorted(one for one in _sessions(home, before) if one[1].stem != keep)
    needed = _needed(home) if old else set[str]()
    found: list[Path] = []
    for _, transcript in old:
        if needed is None or len(found) == MOST:
            break
        if {transcript.stem, session_list(transcript.stem)} & needed or _has_open(home, transcript.stem):
            continue
        if _newest(transcript) < before and not lease_held(transcript.with_suffix("") / LEASE):
            found.append(transcript)
    return found


def _sessions(home: Home, before: float) -> Iterator[tuple[float, Path]]:
    """Sessions whose transcript (there or not) and lease are older, with that age: one look for a younger one."""
    for project in _entries(home.ours / "projects"):
        stems = {entry.name.removesuffix(".jsonl") for entry in _entries(project.path)}
        for stem in filter(_ID.fullmatch, stems):
            changed = _changed(f"{project.path}/{stem}.jsonl")
            if changed < before and (changed := max(changed, _changed(f"{project.path}/{stem}/{LEASE}"))) < before:
                yield changed, Path(project.path, f"{stem}.jsonl")


def _needed(home: Home) -> set[str] | None:
    """Sessions and lists that a team on disk is made of. None: a team cannot be read, so nobody knows."""
    needed: set[str] = set()
    for team in all_teams(home):
        if team.damaged and team.file is None and (home.config(team.directory).exists() or _has_file(home, team)):
            return None
        if team.config is not None:
            needed.add(team.config.lead_session_id)
        needed.add(team.directory)
        if team.file is not None:
            needed |= {team.file.lead.session, Path(team.file.log).parent.name}
            needed |= {Path(life.transcript).parent.parent.name for life in team.file.lives.values()}
    return needed


def _has_file(home: Home, team: NamedTeam) -> bool:
    return home.team_file(team.directory).exists()


def _has_open(home: Home, session: str) -> bool:
    """Whether the session's own list has a task to be done, or one that cannot be read."""
    return any(task.open for task in task_views(home.tasks(session_list(session))))


def _newest(transcript: Path) -> float:
    """When the newest file of the session changed; of one without files, when its directory did."""
    directory = transcript.with_suffix("")
    files = [transcript, *(Path(at, name) for at, _, names in os.walk(directory) for name in names)]
    return max(map(_changed, files)) or _changed(directory)


def _remove(transcript: Path, before: float) -> bool:
    """Remove a session while nobody else can drive it. A kill meanwhile leaves what the next call removes."""
    directory = transcript.with_suffix("")
    changed = _changed(directory / LEASE)
    lease = Lease.take(directory / LEASE, "removed: it is older than the retention")
    try:
        os.utime(directory / LEASE, (changed, changed))  # taking it was no use of the session
        if _newest(transcript) >= before:
            return False
        transcript.unlink(missing_ok=True)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        lease.release()
    return not directory.exists()


async def _put_away_list(home: Home, session: str) -> None:
    """The session's own list, on which all is done, goes to the archive."""
    name = session_list(session)
    if home.tasks(name).is_dir() and not is_shared(home.tasks(name)):
        await TaskList(home.tasks(name), home.guard).remove_into_archive(archive_entry(home, name) / "tasks")


def _changed(path: Path | str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _entries(directory: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []
