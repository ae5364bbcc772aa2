"""The location of a team's files: its directory or archive entry, sessions, transcripts and logs.

A team name can be used again, and a session may lead several teams in turn. So a team also has a period: from its
creation to the creation of the next one. Depends on directories and headers of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from teamwright.agent.transcript import parse_header
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, inbox_stem, parse_agent_id
from teamwright.protocol.members import TeamConfig, parse_config
from teamwright.requests.request_store import RequestStore
from teamwright.saved.teams import find_team_view
from teamwright.storage.json_lines import read_lines
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.snapshots import ARCHIVED
from teamwright.team_records.team_state import TeamFile, read_team_file

FOREVER = float("inf")

_ROUNDED_MS = 0.5
"""The rounding error of a time in whole milliseconds."""


class TranscriptFile(Struct, frozen=True):
    """One transcript. `reader` is the stem of its agent's inbox, lower case; empty for a sub-agent."""

    path: Path
    reader: str
    began_ms: float = 0.0
    header: str = ""
    """The fault in its first line; empty without one."""


class TeamLocation(Struct, frozen=True):
    """A team on disk. `began_ms` to `ended_ms` (since 1970) is its period in its sessions' logs.

    `config` and `file` are None when they are missing or damaged; `damaged` names them.
    """

    home: Home
    name: str
    directory: str
    path: Path
    state: str
    config: TeamConfig | None
    file: TeamFile | None
    began_ms: float
    ended_ms: float
    damaged: tuple[str, ...]
    sessions: tuple[Path, ...]
    transcripts: tuple[TranscriptFile, ...]

    @property
    def archived(self) -> bool:
        """True when the team was deleted, so that its inboxes are not read any more."""
        return self.state == ARCHIVED

    @property
    def tasks(self) -> Path:
        """The directory of its task files. A shared list counts as the team's own while the team uses it."""
        if self.shared_list:
            return FileStores(self.home).task_directory(self.shared_list)
        return self.path / "tasks" if self.archived else FileStores(self.home).task_directory(self.directory)

    @property
    def shared_list(self) -> str:
        """The task list that the team shares with other teams; empty when it has its own."""
        return self.file.task_list if self.file is not None else ""

    @property
    def requests(self) -> Path:
        """The directory of its requests."""
        return self.path / "requests" if self.archived else RequestStore.of_team(self.home, self.directory).directory

    @property
    def inboxes(self) -> Path:
        """The directory of its inboxes."""
        return self.path / "inboxes"

    def has_own_transcript(self, reader: str) -> bool:
        """Return True when that reader's transcript is in the team, and so contains the messages it consumed."""
        if any(one.reader == reader for one in self.transcripts):
            return True
        if self.file is None:
            return False
        return reader == LEAD or any(inbox_stem(name).lower() == reader for name in self.file.incarnations)

    def can_resume(self, reader: str) -> bool:
        """Return True when that reader lives or can be resumed, so that its unread mail is waiting."""
        if self.archived:
            return False
        return self.config is None or any(inbox_stem(m.name).lower() == reader for m in self.config.members)

    def within(self, moment_ms: float) -> bool:
        """Return True when the moment is in the team's period."""
        return self.began_ms - _ROUNDED_MS <= moment_ms < self.ended_ms - _ROUNDED_MS


def find_team_location(home: Home, team: str) -> TeamLocation:
    """Find the team of that name or directory, on disk or else in the archive.

    Raises TeamwrightError (`unknown-team`) with the most similar name.
    """
    view = find_team_view(home, team, archived=True)
    config = _config(view.path)
    file = _file(view.path)
    began = float(config.created_at) if config is not None else 0.0
    session = config.lead_session_id if config is not None else view.session
    ended, renamed = _next(home, view.path, session, view.name, began)
    ids = {session, file.lead.session if file else "", Path(file.log).parent.name if file and file.log else ""} - {""}
    members = [one for one in _members(home, view.name, began) if _in_time(one[1], ids, began, renamed)]
    sessions = _sessions(home, ids | {path.parent.parent.name for path, _ in members})
    return TeamLocation(
        home,
        view.name,
        view.directory,
        view.path,
        view.state,
        config,
        file,
        began,
        ended,
        tuple(word for word in view.damaged.split("; ") if word),
        sessions,
        tuple(_transcripts(sessions, ids, view.name, {path for path, _ in members})),
    )


def moment_ms(text: object) -> float | None:
    """Parse a time of a file into milliseconds since 1970; None for an invalid time."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp() * 1000
    except (ValueError, OverflowError):
        return None


# ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────


def _config(path: Path) -> TeamConfig | None:
    try:
        return parse_config((path / "config.json").read_bytes())
    except (OSError, TeamwrightError):
        return None


def _file(path: Path) -> TeamFile | None:
    try:
        return read_team_file(path / "team.json")
    except TeamwrightError:
        return None


def _next(home: Home, own: Path, session: str, name: str, began: float) -> tuple[float, float]:
    """Return the time when the session created its next team, and the time when the name was used again."""
    after = FOREVER
    again = FOREVER
    for parent in (home.shared / "teams", home.archive):
        for path in entries(parent):
            other = None if path == own else _config(path)
            if other is None or other.created_at <= began:
                continue
            if other.lead_session_id == session:
                after = min(after, other.created_at)
            if other.name == name:
                again = min(again, other.created_at)
    return after, again


def _members(home: Home, name: str, began: float) -> Iterator[tuple[Path, tuple[str, float]]]:
    """Yield transcripts of members of a team of that name, changed since it began; with session and birth."""
    sessions = (session for project in entries(home.own / "projects") for session in entries(project))
    for path in (path for session in sessions for path in entries(session / "agents")):
        if path.suffix != ".jsonl" or _changed_ms(path) < began - 1_000:
            continue
        header, _ = _header(path)
        if parse_agent_id(str(header.get("agent_id", "")))[1] == name:
            yield path, (path.parent.parent.name, moment_ms(header.get("at")) or 0.0)


def _in_time(session_and_time: tuple[str, float], sessions: set[str], began: float, again: float) -> bool:
    """Return True for a member of this team, and not of an earlier or later team of the name."""
    session, at = session_and_time
    return (session in sessions and at == 0.0) or began - _ROUNDED_MS <= at < again


def _sessions(home: Home, ids: set[str]) -> tuple[Path, ...]:
    found: list[Path] = []
    for project in entries(home.own / "projects"):
        for id in sorted(ids):
            directory = project / id
            if directory.is_dir() or directory.with_suffix(".jsonl").exists():
                found.append(directory)
    return tuple(found)


def _transcripts(sessions: tuple[Path, ...], ids: set[str], name: str, members: set[Path]) -> Iterator[TranscriptFile]:
    for session in sessions:
        lead = session.with_suffix(".jsonl")
        if lead.exists():
            yield TranscriptFile(lead, LEAD, header=_header(lead)[1])
        for path in entries(session / "agents"):
            if path.suffix != ".jsonl":
                continue
            header, wrong = _header(path)
            member, team = parse_agent_id(str(header.get("agent_id", "")))
            at = moment_ms(header.get("at")) or 0.0
            if path in members:
                yield TranscriptFile(path, inbox_stem(member).lower(), at)
            elif session.name in ids and (wrong or not team):
                # A damaged transcript may be a member's. Without it, that member's messages would count as lost.
                yield TranscriptFile(path, path.stem.lower() if wrong else "", at, wrong)


def _header(path: Path) -> tuple[dict[str, object], str]:
    try:
        return dict(parse_header(next(iter(read_lines(path)), b""), path)), ""
    except TeamwrightError as problem:
        return {}, problem.what
    except OSError as problem:
        return {}, f"{path}: {problem.strerror}"


def entries(directory: Path) -> list[Path]:
    """Return the content of a directory, by name; empty when it cannot be read."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _changed_ms(path: Path) -> float:
    try:
        return path.stat().st_mtime * 1000
    except OSError:
        return 0.0
