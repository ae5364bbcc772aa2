"""Removal of old data: archived teams, finished tasks of shared lists, and finished sessions.

A session is removed when its files did not change for the configured days, counted back from the newest session and not
from the clock. A session stays while a process runs it, a team on disk belongs to it, or its task list has an open
task. One call does bounded work. Depends on sessions, teams and leases.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from teamwright.config.settings.merge import load_settings, reads_other_product
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.trust import TrustStore
from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.ids import session_list_name
from teamwright.saved.removal import archive_finished_teams
from teamwright.saved.sessions import SessionView
from teamwright.saved.teams import all_teams
from teamwright.storage.file_lease import Lease, lease_held, lease_path
from teamwright.storage.files import write_atomic
from teamwright.storage.locks import remove_unused_guard
from teamwright.storage.paths import Home
from teamwright.team_records.archive import archive_entry, prune_archive
from teamwright.team_records.file_stores import FileStores

MOST = 20
"""Maximum number of sessions that one call removes; the next call removes more."""

SHARE = 4
"""One call removes at most one of this many sessions or archived teams, to limit the damage of a wrong clock."""

DAY_S = 86_400.0

AGAIN_S = 3_600.0
"""Seconds after a call that found nothing to remove in which no session looks again."""

LOOKED_FILE = "retention-looked"
"""The file that says when, and for how many days, the last such call looked."""

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def retention_days(home: Home, cwd: Path, settings_file: Path | str | None = None) -> int:
    """Return the retention in days, by the settings of a directory. Raises CannotStart (`bad-settings`)."""
    flags = SettingFlags(settings_file=settings_file)
    trust = TrustStore.load(home).verdict(cwd, compat=reads_other_product(home, flags))
    return load_settings(home, cwd, flags, trust).retention_days


class PruneResult(Struct):
    """The items that one call removed: ids of sessions, directories of archived teams, and for each shared list the
    number of tasks that it archived.
    """

    days: float
    tasks: dict[str, int] = field(default_factory=dict[str, int])
    sessions: list[str] = field(default_factory=list[str])
    teams: list[Path] = field(default_factory=list[Path])
    finished: list[str] = field(default_factory=list[str])
    """Names of finished teams that were archived."""

    def __str__(self) -> str:
        """Return one sentence; empty when nothing was removed."""
        parts = [
            f"{len(names)} {word}{'' if len(names) == 1 else 's'} ({', '.join(names[:5])}{', …' * (len(names) > 5)})"
            for word, names in (
                ("session", [id[:8] for id in self.sessions]),
                ("archived team", [path.name for path in self.teams]),
            )
            if names
        ]
        why = f"not changed for more than {self.days:g} days (setting retention_days)"
        sentences = [f"Removed {' and '.join(parts)}: {why}."] if parts else []
        if self.finished:
            teams = "1 finished team" if len(self.finished) == 1 else f"{len(self.finished)} finished teams"
            names = ", ".join(self.finished[:5]) + ", …" * (len(self.finished) > 5)
            sentences.append(f"Archived {teams} ({names}): {why}.")
        for name, count in self.tasks.items():
            tasks = "1 finished task" if count == 1 else f"{count} finished tasks"
            sentences.append(f"Archived {tasks} of the shared list {name}: {why}.")
        return " ".join(sentences)


async def prune_hourly(home: Home, days: float, *, keep: str = "") -> PruneResult:
    """Remove data as `prune`, unless a call of the last hour found nothing older than `days`.

    Sessions begin often, and a look reads every session, team and archived team of the home.
    """
    if await asyncio.to_thread(_looked_lately, home, days):
        return PruneResult(days)
    removed = await prune(home, days, keep=keep)
    if not str(removed):
        with suppress(StorageError, OSError):  # a home that cannot be written is looked at again
            await asyncio.to_thread(write_atomic, home.own / LOOKED_FILE, f"{days:g}".encode())
    return removed


def _looked_lately(home: Home, days: float) -> bool:
    file = home.own / LOOKED_FILE
    with suppress(OSError, ValueError):
        return 0 <= time.time() - file.stat().st_mtime < AGAIN_S and file.read_text("utf-8") == f"{days:g}"
    return False


async def prune(home: Home, days: float, *, keep: str = "") -> PruneResult:
    """Remove data that is older than `days`; 0 keeps everything. `keep` is the id of a session that stays.

    The age is counted from the newest other session. Data that cannot be removed stays; nothing is raised.
    """
    removed = PruneResult(days)
    if days <= 0:
        return removed
    await asyncio.to_thread(_remove_snapshots, home, time.time() - days * DAY_S, keep)
    await asyncio.to_thread(_remove_guards, home, time.time() - days * DAY_S)
    await _archive_tasks(home, removed)
    sessions = [one for one in await asyncio.to_thread(_sessions, home) if one[1].stem != keep]
    if not sessions:
        return removed
    now = min(time.time(), max(changed for changed, _ in sessions))
    with suppress(OSError):
        removed.teams = await asyncio.to_thread(prune_archive, home, days=days, now=now, max_share=SHARE)
    before = now - days * DAY_S
    with suppress(TeamwrightError, OSError):
        removed.finished = [one.team for one in await archive_finished_teams(home, before, SHARE)]
    for transcript in await asyncio.to_thread(_expired_sessions, home, sessions, before):
        with suppress(TeamwrightError, OSError):
            if await asyncio.to_thread(_remove, home, transcript, before):
                removed.sessions.append(transcript.stem)
                await _put_away_list(home, transcript.stem)
    return removed


async def remove_session(home: Home, session: SessionView, *, force: bool = False) -> None:
    """Remove one session that a person named.

    Raises CannotStart (`session-busy`) while a process runs it, and TeamRefused (`team-refused`) while a team or an
    open task needs it, unless `force`.
    """
    needed = _needed(home)
    if not force and (
        needed is None or {session.id, session_list_name(session.id)} & needed or _has_open(home, session.id)
    ):
        raise TeamRefused(
            "team-refused",
            f"a team or an open task needs session {session.id[:8]}",
            do=["look: teamwright teams", f"all the same: teamwright sessions rm {session.id[:8]} --force"],
            note="nothing was removed",
        )
    await asyncio.to_thread(_remove, home, session.path, math.inf)
    await _put_away_list(home, session.id)


def _remove_guards(home: Home, before: float) -> None:
    """Remove guards of deleted teams and task lists that no process used since `before`."""
    for kind in ("teams", "tasks"):
        gone = [one for one in _entries(home.own / "guards" / kind) if not (home.shared / kind / one.name).exists()]
        for at, _, names in (found for entry in gone for found in os.walk(entry.path, topdown=False)):
            _remove_old_guards(Path(at), names, before)


def _remove_old_guards(directory: Path, names: list[str], before: float) -> None:
    """Remove old guards, and their directory when it is empty then."""

    with suppress(OSError):
        for name in names:
            if name.endswith(".json") and _changed(directory / name) < before:
                remove_unused_guard(directory / name)
        directory.rmdir()


async def _archive_tasks(home: Home, removed: PruneResult) -> None:
    """Archive tasks of shared lists that were finished long before the newest change of their list."""
    for entry in _entries(home.shared / "tasks"):
        with suppress(TeamwrightError, OSError):
            target = archive_entry(home, entry.name) / "tasks"
            stores = FileStores(home)
            if not stores.is_shared(entry.name):
                continue
            if count := await stores.tasks(entry.name).archive_finished(target, removed.days):
                removed.tasks[entry.name] = count


def _remove_snapshots(home: Home, before: float, keep: str) -> None:
    """Remove old shell snapshots, also of sessions that stay: a session creates a missing one again."""
    for entry in _entries(home.shell_snapshots):
        if not entry.name.startswith(f"{keep}.") and _changed(entry.path) < before:
            with suppress(OSError):
                os.unlink(entry.path)


def _expired_sessions(home: Home, sessions: list[tuple[float, Path]], before: float) -> list[Path]:
    """Return the transcripts (existing or not) of sessions to remove, oldest first; at most MOST and a share."""
    old = sorted(one for one in sessions if one[0] < before)
    most = min(MOST, -(-len(sessions) // SHARE))
    needed = _needed(home) if old else set[str]()
    found: list[Path] = []
    for _, transcript in old:
        if needed is None or len(found) == most:
            break
        if {transcript.stem, session_list_name(transcript.stem)} & needed or _has_open(home, transcript.stem):
            continue
        if _newest(transcript) < before and not lease_held(lease_path(transcript.with_suffix(""))):
            found.append(transcript)
    return found


def _sessions(home: Home) -> list[tuple[float, Path]]:
    """Return all sessions by their transcript (existing or not), with the time of its or the lease's last change."""
    found: list[tuple[float, Path]] = []
    for project in _entries(home.own / "projects"):
        stems = {entry.name.removesuffix(".jsonl") for entry in _entries(project.path)}
        for stem in filter(_ID.fullmatch, stems):
            path = f"{project.path}/{stem}"
            changed = max(_changed(f"{path}.jsonl"), _changed(lease_path(Path(path))))
            found.append((changed, Path(f"{path}.jsonl")))
    return found


def _needed(home: Home) -> set[str] | None:
    """Return sessions and lists that teams on disk use. None: a team cannot be read, so they are unknown."""
    needed: set[str] = set()
    for team in all_teams(home):
        if (
            team.damaged
            and team.file is None
            and (FileStores(home).roster(team.directory).exists or FileStores(home).state(team.directory).path.exists())
        ):
            return None
        if team.config is not None:
            needed.add(team.config.lead_session_id)
        needed.add(team.directory)
        if team.file is not None:
            needed |= {team.file.lead.session, Path(team.file.log).parent.name}
            needed |= {
                Path(incarnation.transcript).parent.parent.name
                for incarnation in team.file.incarnation_records.values()
            }
    return needed


def _has_open(home: Home, session: str) -> bool:
    """Return True when the session's own list has an open task, or one that cannot be read."""
    from teamwright.team_records.snapshots import task_views

    return any(task.open for task in task_views(FileStores(home).task_directory(session_list_name(session))))


def _newest(transcript: Path) -> float:
    """Return the time of the session's newest change; without files, that of its directory."""
    directory = transcript.with_suffix("")
    files = [transcript, *(Path(at, name) for at, _, names in os.walk(directory) for name in names)]
    return max(map(_changed, files)) or _changed(directory)


def remove_beside(home: Home, session: str) -> None:
    """Remove what a session has outside of its directory: its debug logs, and the variables that its hooks set."""
    for path in home.debug_logs(session):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
    with suppress(OSError, TeamwrightError):
        variables = home.session_variables(session).parent
        shutil.rmtree(variables, ignore_errors=True)


def _remove(home: Home, transcript: Path, before: float) -> bool:
    """Remove a session while holding its lease. After a kill the next call removes the rest."""
    directory = transcript.with_suffix("")
    changed = _changed(lease_path(directory))
    lease = Lease.take(lease_path(directory), "removed")
    try:
        os.utime(lease_path(directory), (changed, changed))  # taking the lease does not count as use of the session
        if _newest(transcript) >= before:
            return False
        for copy in transcript.parent.glob(f"{transcript.name}.bad.*"):
            copy.unlink(missing_ok=True)
        transcript.unlink(missing_ok=True)
        shutil.rmtree(directory, ignore_errors=True)
        remove_beside(home, transcript.stem)
    finally:
        lease.release()
    return not directory.exists()


async def _put_away_list(home: Home, session: str) -> None:
    """Archive the session's own task list, on which all tasks are completed."""
    name = session_list_name(session)
    stores = FileStores(home)
    if stores.tasks(name).exists and not stores.is_shared(name):
        await stores.tasks(name).archive_and_remove(archive_entry(home, name) / "tasks")


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
