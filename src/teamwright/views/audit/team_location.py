"""Where everything of one team lies: its directory or its entry in the archive, sessions, transcripts, logs.

A name can be used again and a session may lead several teams one after another, so a team also has a time: from its
making to the making of the next. Knows folders and headers; refuses to judge what is in the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from teamwright.agent.transcript import parse_header
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, inbox_stem, parse_agent_id
from teamwright.protocol.roster import TeamConfig, parse_config
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import read_lines
from teamwright.storage.paths import Home
from teamwright.teams.status.team_views import ARCHIVED, find_team
from teamwright.teams.team_file import TeamFile, read_team_file

FOREVER = float("inf")

_ROUNDED_MS = 0.5
"""What a time in whole milliseconds loses on its way through a fraction."""


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """One file of a conversation. `reader` is the stem of the inbox that it reads, lower case; a sub-agent has none."""

    path: Path
    reader: str
    began_ms: float = 0.0
    header: str = ""
    """What is wrong with its first line; empty when it is whole."""


@dataclass(frozen=True, slots=True)
class TeamLocation:
    """A team on disk. `began_ms` to `ended_ms` (since 1970) is its time in its sessions' logs.

    `config` and `file` are None when they are missing or damaged; `damaged` says which.
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
        """Whether the team was deleted: nobody reads its inboxes any more."""
        return self.state == ARCHIVED

    @property
    def tasks(self) -> Path:
        """Where its task files are; a list that it shares with others is its own while it is used."""
        if self.shared_list:
            return self.home.tasks(self.shared_list)
        return self.path / "tasks" if self.archived else self.home.tasks(self.directory)

    @property
    def shared_list(self) -> str:
        """The task list that it shares with other teams; empty: it has its own."""
        return self.file.task_list if self.file is not None else ""

    @property
    def requests(self) -> Path:
        """Where its requests are."""
        return self.path / "requests" if self.archived else self.home.requests(self.directory)

    @property
    def inboxes(self) -> Path:
        """Where its inboxes are."""
        return self.path / "inboxes"

    def has_own_transcript(self, reader: str) -> bool:
        """Whether that reader's conversation is kept by us: then what it consumed is in a transcript."""
        if any(one.reader == reader for one in self.transcripts):
            return True
        if self.file is None:
            return False
        return reader == LEAD or any(inbox_stem(name).lower() == reader for name in self.file.incarnations)

    def can_resume(self, reader: str) -> bool:
        """Whether that reader lives or can be resumed: mail that is unread there waits."""
        if self.archived:
            return False
        return self.config is None or any(inbox_stem(m.name).lower() == reader for m in self.config.members)

    def within(self, moment_ms: float) -> bool:
        """Whether the moment is in the team's time."""
        return self.began_ms - _ROUNDED_MS <= moment_ms < self.ended_ms - _ROUNDED_MS


def find_team_location(home: Home, team: str) -> TeamLocation:
    """The team of that name or directory, on disk or else in the archive.

    Raises TeamwrightError (`unknown-team`) naming the nearest.
    """
    view = find_team(home, team, archived=True)
    config, file = _config(view.path), _file(view.path)
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
    """A time as files have it, in milliseconds since 1970; None for what is none."""
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
    """When the session made its next team, and when the name was used again."""
    after, again = FOREVER, FOREVER
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
    """Transcripts of members of a team of that name, written to since it began; with session and birth."""
    sessions = (session for project in entries(home.own / "projects") for session in entries(project))
    for path in (path for session in sessions for path in entries(session / "agents")):
        if path.suffix != ".jsonl" or _changed_ms(path) < began - 1_000:
            continue
        header, _ = _header(path)
        if parse_agent_id(str(header.get("agent_id", "")))[1] == name:
            yield path, (path.parent.parent.name, moment_ms(header.get("at")) or 0.0)


def _in_time(born: tuple[str, float], sessions: set[str], began: float, again: float) -> bool:
    """A member of this team, and not of an earlier or later one of the name."""
    session, at = born
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
                # A damaged one may be a member's: what it cannot show would else be called lost without a reason.
                yield TranscriptFile(path, path.stem.lower() if wrong else "", at, wrong)


def _header(path: Path) -> tuple[dict[str, object], str]:
    try:
        return dict(parse_header(next(iter(read_lines(path)), b""), path)), ""
    except TeamwrightError as problem:
        return {}, problem.what
    except OSError as problem:
        return {}, f"{path}: {problem.strerror}"


def entries(directory: Path) -> list[Path]:
    """What is in a directory, by name; nothing when it cannot be read."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _changed_ms(path: Path) -> float:
    try:
        return path.stat().st_mtime * 1000
    except OSError:
        return 0.0
