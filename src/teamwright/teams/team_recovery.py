"""Rebuild config.json or team.json of a team whose lead is gone, each from the other one, transcripts and the log.

Depends on rosters, team files, transcripts and inboxes. Leaves the team of a living lead to that lead, which restores
its files from memory, and prints nothing: it returns a sentence for each team.
"""

from __future__ import annotations

import asyncio
import glob
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.processes.process_tree import process_start
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.events import MemberChanged
from teamwright.protocol.ids import LEAD, inbox_stem, parse_iso_ms, team_dir
from teamwright.protocol.members import IN_PROCESS, RosterMember, TeamConfig
from teamwright.storage.event_log import log_path, read_events
from teamwright.storage.file_lease import lease_holder, lease_path
from teamwright.storage.files import keep_damaged_copy, write_atomic, write_new
from teamwright.storage.json_lines import read_lines
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.roster import (
    BRIEF_PATIENCE_S,
    all_mail,
    read_transcript_header,
    rebuilt_roster,
)
from teamwright.team_records.snapshots import resolve_home
from teamwright.team_records.team_state import (
    Incarnation,
    LeadLease,
    TeamFile,
    is_lead_alive,
    lead_of_session,
    process_directory,
    stored_entry,
)

_CLOCK_SLACK_MS = 1_000
"""Milliseconds by which a member's transcript may be older than its roster entry, because of clocks."""


async def recover_teams(home: Home, session: str = "", *, word: str = "") -> tuple[str, ...]:
    """Rebuild the damaged or missing files of the teams on disk. Returns a sentence for each rebuilt file.

    `word` restricts it to the teams of this name (see `team_directories`). With `session` only the teams that this
    session leads, whose lease the caller holds; else those without a lead. A team that cannot be rebuilt stays as it
    is. An error of a single team is not raised.
    """
    sentences: list[str] = []
    for directory in damaged_teams(home, word):
        with suppress(TeamwrightError, OSError):
            if sentence := await _Recovery(home, directory, session).recover():
                sentences.append(sentence)
    return tuple(sentences)


def team_directories(home: Home, word: str = "") -> list[str]:
    """Return the directories of the teams that a word may name; of all teams for an empty word or a session id."""
    try:
        names = sorted(entry.name for entry in (home.shared / "teams").iterdir())
    except OSError:
        return []
    named = re.compile(rf"{re.escape(team_dir(word.rpartition('@')[2]))}(-\d+)?")
    return [name for name in names if word and named.fullmatch(name)] or names


def damaged_teams(home: Home, word: str = "") -> list[str]:
    """Return the directories of teams of which one of both files exists and the other is missing or damaged."""
    return [name for name in team_directories(home, word) if _is_damaged(home, name)]


def _is_damaged(home: Home, directory: str) -> bool:
    try:
        return (_read_config(home, directory) is None) != (_read_file(home, directory) is None)
    except (TeamwrightError, OSError):
        return False


def _read_config(home: Home, directory: str) -> TeamConfig | None:
    """Return the roster; None when it is missing or damaged. Raises OSError."""
    with suppress(StorageError, FileNotFoundError):
        return FileStores(home).read_roster(directory)
    return None


def _read_file(home: Home, directory: str) -> TeamFile | None:
    """Return the team file; None when it is missing or damaged. Raises StorageError for one of a newer version."""
    try:
        return FileStores(home).read_state(directory)
    except StorageError as problem:
        if problem.slug != "damaged-file":
            raise
        return None


class _Recovery:
    """The files of one team."""

    def __init__(self, home: Home, directory: str, session: str) -> None:
        self.home = home
        self.directory = directory
        self._session = session

    async def recover(self) -> str:
        """Rebuild one file from the other. Returns a sentence about it; empty when no file needed it."""
        config = _read_config(self.home, self.directory)
        file = _read_file(self.home, self.directory)
        if config is not None and file is None:
            return await self._rebuild_file(config)
        if config is None and file is not None and FileStores(self.home).roster(self.directory).exists:
            return await self._rebuild_roster(file)
        return ""

    def _may_rebuild(self, lead: LeadLease) -> bool:
        """Return True when this process may rebuild the team's files, because its lead is gone."""
        return lead.session == self._session if self._session else not is_lead_alive(lead)

    # ── config.json ──────────────────────────────────────────────────────────────────────────────────────────

    async def _rebuild_roster(self, file: TeamFile) -> str:
        if not self._may_rebuild(file.lead):
            return ""
        roster = FileStores(self.home).roster(self.directory)
        with suppress(StorageError):
            await roster.read(patience_s=BRIEF_PATIENCE_S)  # another program may be writing it
            return ""
        config = rebuilt_roster(self.home, self.directory, file)
        copy = await roster.restore(config)
        if copy is None:
            return ""
        lost = self._unknown_members(file, config)
        without = f", without members that other programs had added: {', '.join(lost)} (their inboxes are kept)"
        return (
            f'config.json of the team "{config.name}" was damaged and was rebuilt from team.json and the '
            f"transcripts{without if lost else ''}. The damaged bytes are kept in {copy}."
        )

    def _unknown_members(self, file: TeamFile, config: TeamConfig) -> list[str]:
        """Return the names that have an inbox and are in no other file."""
        names = {
            *(member.name for member in config.members),
            *file.incarnation_records,
            *file.ended,
            *file.incarnations,
        }
        ours = {inbox_stem(name).lower() for name in names}
        inboxes = (self.home.team(self.directory) / "inboxes").glob("*.json")
        return sorted(path.stem for path in inboxes if path.stem.lower() not in ours)

    # ── team.json ────────────────────────────────────────────────────────────────────────────────────────────

    async def _rebuild_file(self, config: TeamConfig) -> str:
        place = self._session_directory(config.lead_session_id)
        if place is None:
            return ""  # no Teamwright session led it: it belongs to another product
        lead = lead_of_session(config.lead_session_id, place)
        if not self._may_rebuild(lead):
            return ""
        stores = FileStores(self.home)
        path = stores.state(self.directory).path
        file = self.rebuild_team_file(config, lead, place)
        async with stores.lock(path).hold() as lock:
            if _read_file(self.home, self.directory) is not None:
                return ""
            lock.check()
            copy = keep_damaged_copy(path) if path.exists() else None
            (write_atomic if copy is not None else write_new)(path, file.encode())
        was = "missing" if copy is None else "damaged"
        copy_note = "" if copy is None else f" The damaged bytes are kept in {copy}."
        return (
            f'team.json of the team "{config.name}" was {was} and was rebuilt from config.json and the transcripts. '
            f"Caps of single members, and a task list shared by --task-list, are no longer known.{copy_note}"
        )

    def _session_directory(self, session: str) -> Path | None:
        """Return the directory of a Teamwright session; None for an unknown id."""
        if not session or "/" in session:
            return None
        found = glob.glob(f"{glob.escape(str(self.home.own / 'projects'))}/*/{glob.escape(session)}/")
        return Path(found[0]) if found else None

    def rebuild_team_file(self, config: TeamConfig, lead: LeadLease, session_directory: Path) -> TeamFile:
        """Return the team file rebuilt from the roster, the transcripts and the session's log in
        `session_directory`.
        """
        log = log_path(session_directory)
        incarnations = _count_incarnations(log)
        file = replace(TeamFile.new(lead, str(log)).with_roster(config), incarnations=incarnations)
        own = config.find(LEAD)
        for member in config.teammates:
            incarnation = self._incarnation(member, session_directory, incarnations.get(member.name.lower(), 1))
            if incarnation is not None:
                same = own is not None and own.model == member.model
                file = file.with_incarnation(member.name, replace(incarnation, model=None if same else member.model))
        return file

    def _incarnation(self, member: RosterMember, session_directory: Path, incarnation: int) -> Incarnation | None:
        """Return the present incarnation of a member; None for a member of another program."""
        transcript = _find_transcript(member, session_directory)
        if transcript is None:
            first = next(
                (e.msg_id for e in all_mail(self.home, self.directory, member.name) if e.sender == LEAD and e.msg_id),
                None,
            )
            if first is None or member.backend_type != IN_PROCESS:
                return None
            transcript = session_directory / "agents" / f"{inbox_stem(member.name)}.jsonl"
        else:
            first = _first_message_id(transcript)
        entry = stored_entry(member)
        return Incarnation(incarnation, str(transcript), first, place=_running_process(transcript), entry=entry)


def _count_incarnations(log: Path) -> dict[str, int]:
    """Return the number of incarnations of each name, from the session's log."""
    known: dict[str, int] = {}
    with suppress(StorageError, OSError):
        for _, event in read_events(log):
            if isinstance(event, MemberChanged) and event.incarnation:
                key = event.member.lower()
                known[key] = max(known.get(key, 0), event.incarnation)
    return known


def _find_transcript(member: RosterMember, session_directory: Path) -> Path | None:
    """Return the newest transcript of the member, of any session of its lead's directory."""
    pattern = f"{glob.escape(str(session_directory.parent))}/*/agents/{glob.escape(inbox_stem(member.name))}*.jsonl"
    found: list[tuple[int, str]] = []
    for path in glob.glob(pattern):
        header = read_transcript_header(Path(path))
        at = parse_iso_ms(str(header.get("at", ""))) or 0
        if header.get("agent_id") == member.agent_id and at >= member.joined_at - _CLOCK_SLACK_MS:
            found.append((at, path))
    return Path(max(found)[1]) if found else None


def _first_message_id(transcript: Path) -> str:
    """Return the id of the first message to the member."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        for line in read_lines(transcript):
            ids = json.loads(line).get("injected", ()) if b'"injected":' in line else ()
            if mail := [str(id) for id in ids if str(id).startswith("mail:")]:
                return mail[0].removeprefix("mail:")
    return ""


def _running_process(transcript: Path) -> dict[str, Any] | None:
    """Return the location of a member process that outlived its lead; None when there is none."""
    pid = lease_holder(lease_path(process_directory(transcript)))
    if not pid:
        return None
    return {"kind": "detached", "id": str(pid), "facts": {"pid": str(pid), "start": process_start(pid)}}


def open_recovered_home(root: str | None, word: str = "") -> tuple[Home, tuple[str, ...]]:
    """Return the home at this root, and a sentence for each file of a team that was rebuilt. Raises as `resolve_home`.

    Locks of killed processes are removed too. `word`, a name or an address, restricts both to the teams that it may
    name: the directories of other teams are not opened. Not for a running event loop.
    """
    home = resolve_home(root)
    for directory in team_directories(home, word):
        with suppress(TeamwrightError):
            FileStores(home).remove_dead_locks(directory)
    return home, asyncio.run(recover_teams(home, word=word)) if damaged_teams(home, word) else ()
