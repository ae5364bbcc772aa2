"""The state of a team, team.json: the facts that only our program records.

It contains the team's uuid, its lead and lease, the number of incarnations of each name, the present incarnations with
their transcripts, pending ends, and the path of the event log. Format: JSON, `version` 1; an older version is always
readable, unknown keys are kept, and a file of a newer version is never written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from teamwright.agent.agent_type import AgentBounds
from teamwright.models.effort import Effort, parse_effort
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import StorageError, TeamRefused, UsageError
from teamwright.protocol.events import FileMark
from teamwright.protocol.ids import LEAD
from teamwright.protocol.indented_json import EncodedValues, IndentedJson
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.protocol.usage import NO_CAPS, Budget
from teamwright.storage.file_lease import lease_held, lease_path, process_exists
from teamwright.storage.file_watcher import file_mark
from teamwright.storage.files import keep_damaged_copy, storage_error, write_atomic
from teamwright.storage.locks import lock_for
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher
    from teamwright.team_records.atomic_record import AtomicRecord


VERSION = 1


_TASK_LIST = "task_list"
"""A key that only the file of a team with a shared list has."""


_ROSTER = "roster"
"""The roster without members: config.json is restored from it."""


class LeadLease(Struct, frozen=True):
    """The lead: its session, its process, and the lease file that the process holds (empty: none yet)."""

    session: str
    pid: int
    lease: str = ""


class Incarnation(Struct, frozen=True):
    """One run of a member: the facts that a resuming process cannot read elsewhere.

    `extra` are keys of a later version.
    """

    incarnation: int
    """Its number."""
    transcript: str
    """The name of its transcript."""
    first: str
    """The id of the inbox entry with its first prompt."""
    call: str = ""
    """The call that started it."""
    model: str | None = None
    """The requested model; null: the lead's."""
    max_turns: int | None = None
    """The cap on its model calls."""
    budget: Budget = NO_CAPS
    """Its caps (usd tokens turns minutes calls); absent without caps."""
    bounds: AgentBounds | None = None
    """The limits of its agent type at its start; absent without limits."""
    mode: str | None = None
    """Its permission mode; empty: the lead's mode. A resume uses this value, not the roster's."""
    effort: Effort | None = None
    """The requested effort; absent without one."""
    place: Mapping[str, Any] | None = None
    """The backend's record of its member process: `{kind, id, facts, note?}`; absent in the lead's process."""
    command: str = ""
    """The command of another program that runs it; absent for Teamwright."""
    crashed: str = ""
    """The cause of the end of its process, until it is resumed or removed."""
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keys of its roster entry, from which a damaged config.json is rebuilt."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_json(self) -> dict[str, Any]:
        """Return its object in the file; caps and bounds only when there are any."""
        out = asdict(self)
        for name in ("mode", "effort", "place"):
            if out[name] is None:
                del out[name]
        for name in ("command", "crashed", "entry"):
            if not out[name]:
                del out[name]
        del out["budget"]
        out |= out.pop("extra")
        del out["bounds"]
        own_bounds = self.bounds
        bounds = {} if own_bounds is None or own_bounds == AgentBounds() else {"bounds": own_bounds.as_json()}
        return out | ({"budget": self.budget.as_json()} if self.budget else {}) | bounds


class PendingEnd(Struct, frozen=True):
    """A member that has ended, until the lead is notified: a process that resumes the team completes this.

    `name` as on the roster; `agreed_to` is the shutdown request that it agreed to, `tasks` go back to the list, `tell`:
    the lead is notified, with the message id `told`; `keeps`: the member crashed or failed, and keeps its place and its
    conversation.
    """

    name: str
    incarnation: int
    cause: str
    told: str
    agreed_to: str = ""
    tasks: tuple[str, ...] = ()
    tell: bool = True
    keeps: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_json(self) -> dict[str, Any]:
        """Return its object in the file; `keeps` only when true."""
        out = {name: value for name, value in asdict(self).items() if value or name != "keeps"}
        return out | out.pop("extra", {})


class EndedIncarnation(Struct, frozen=True):
    """The last run of a name that has ended: its cause, and the call that started it, which starts no second member."""

    call: str
    cause: str


class TeamFile(Struct, frozen=True):
    """The whole file; members by name in lower case. `incarnations` counts those of each name."""

    uuid: str
    lead: LeadLease
    incarnations: Mapping[str, int] = field(default_factory=dict[str, int])
    log: str = ""
    incarnation_records: Mapping[str, Incarnation] = field(default_factory=dict[str, Incarnation])
    pending_ends: Mapping[str, PendingEnd] = field(default_factory=dict[str, PendingEnd])
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ended: Mapping[str, EndedIncarnation] = field(default_factory=dict[str, EndedIncarnation])
    version: int = VERSION

    @classmethod
    def new(cls, lead: LeadLease, log: str = "") -> TeamFile:
        """Return the file of a new team."""
        return cls(str(uuid.uuid4()), lead, log=log)

    @property
    def task_list(self) -> str:
        """The shared list that the team uses; empty: its own list."""
        name = self.extra.get(_TASK_LIST)
        return name if isinstance(name, str) else ""

    def with_task_list(self, name: str) -> TeamFile:
        """Return the file with this shared list; unchanged for an empty name."""
        return replace(self, extra={**self.extra, _TASK_LIST: name}) if name else self

    @property
    def roster(self) -> Mapping[str, Any]:
        """The roster at the creation of the team: its keys, and of `members` the lead's and those that other programs
        added.
        """
        saved_roster = self.extra.get(_ROSTER)
        return cast("Mapping[str, Any]", saved_roster) if isinstance(saved_roster, dict) else {}

    def with_roster(self, config: TeamConfig, external: Collection[str] = ()) -> TeamFile:
        """Return the file with this roster's facts of the team, and with the members of these names in lower case that
        other programs added.
        """
        ours = self.incarnation_records
        others = (m for m in config.teammates if (name := m.name.lower()) in external and name not in ours)
        members = (m for m in config.members if m.name == LEAD)
        saved_config = replace(config, members=(*members, *(replace(m, is_active=None) for m in others)))
        return replace(self, extra={**self.extra, _ROSTER: json.loads(saved_config.encode())})

    def with_incarnation(self, name: str, incarnation: Incarnation) -> TeamFile:
        """Return the file with this incarnation of that name."""
        key = name.lower()
        incarnations = {**self.incarnations, key: incarnation.incarnation}
        return replace(
            self, incarnations=incarnations, incarnation_records={**self.incarnation_records, key: incarnation}
        )

    def with_transcripts(self, session: Path) -> TeamFile:
        """Return the file with the transcripts of all members in the directory of this session."""
        moved = {
            name: replace(incarnation, transcript=str(session / "agents" / Path(incarnation.transcript).name))
            for name, incarnation in self.incarnation_records.items()
        }
        return replace(self, incarnation_records=moved)

    def next_incarnation(self, name: str) -> int:
        """Return the number of the name's next incarnation, from 1: never used twice."""
        return self.incarnations.get(name.lower(), 0) + 1

    def with_pending_end(self, pending_end: PendingEnd) -> TeamFile:
        """Return the file with this pending end."""
        return replace(self, pending_ends={**self.pending_ends, pending_end.name.lower(): pending_end})

    def without_incarnation(self, name: str, incarnation: int) -> TeamFile:
        """Return the file without that incarnation of the name and its pending end; the facts of the
        last one are kept.
        """
        key = name.lower()
        record = self.incarnation_records.get(key)
        pending_end = self.pending_ends.get(key)
        records = dict(self.incarnation_records)
        if record is not None and record.incarnation == incarnation:
            del records[key]
        pending_ends = dict(self.pending_ends)
        if pending_end is not None and pending_end.incarnation == incarnation:
            del pending_ends[key]
        ended = self.ended
        if record is not None and pending_end is not None and key not in records and key not in pending_ends:
            ended = {**ended, key: EndedIncarnation(record.call, pending_end.cause)} if record.call else ended
        return replace(self, incarnation_records=records, pending_ends=pending_ends, ended=ended)

    def with_crash(self, pending_end: PendingEnd) -> TeamFile:
        """Return the file with that incarnation kept for a resume, and without its pending end."""
        key = pending_end.name.lower()
        incarnation = self.incarnation_records.get(key)
        left = {name: one for name, one in self.pending_ends.items() if name != key}
        if incarnation is None or incarnation.incarnation != pending_end.incarnation:
            return replace(self, pending_ends=left)
        return replace(
            self,
            pending_ends=left,
            incarnation_records={**self.incarnation_records, key: replace(incarnation, crashed=pending_end.cause)},
        )

    def with_resumed(self, name: str, incarnation: Incarnation) -> TeamFile:
        """Return the file with that incarnation resumed, if it is the present one: from this call, and no longer
        crashed.
        """
        now = self.incarnation_records.get(name.lower())
        if now is None or now.incarnation != incarnation.incarnation:
            return self
        again = replace(now, crashed="", call=incarnation.call)
        return replace(self, incarnation_records={**self.incarnation_records, name.lower(): again})

    def find_crashed(self, name: str) -> Incarnation | None:
        """Return the incarnation of a failed or crashed member that still has its place."""
        found = self.incarnation_records.get(name.lower())
        return found if found is not None and found.crashed else None

    def describe_end(self, call: str) -> str:
        """Return the end of the member that this call started, in a sentence; empty when it started
        none, or it lives.
        """
        found = (
            f"{name} was started, and has ended: {one.cause}" for name, one in self.ended.items() if one.call == call
        )
        return next(found, "")

    def encode(self, encoder: IndentedJson | None = None) -> bytes:
        """Return the file's bytes: 2-space JSON. A kept `encoder` encodes only the incarnations changed since last
        time.
        """
        data: dict[str, Any] = {
            "version": self.version,
            "uuid": self.uuid,
            "lead": {"session": self.lead.session, "pid": self.lead.pid, "lease": self.lead.lease},
            "incarnations": EncodedValues(self.incarnations, int),
            "log": self.log,
            "lives": EncodedValues(self.incarnation_records, Incarnation.as_json),
            "partings": EncodedValues(self.pending_ends, PendingEnd.as_json),
        }
        data |= {"ended": EncodedValues(self.ended, asdict)} if self.ended else {}
        return (encoder or IndentedJson()).encode(data | dict(self.extra))


def parse_team_file(raw: bytes) -> TeamFile:
    """Return the file in these bytes.

    Raises StorageError: `damaged-file`, or `newer-version` for one of a version that cannot be read here.
    """
    version = VERSION
    try:
        data = cast("dict[str, Any]", json.loads(raw))
        version = int(data.get("version", VERSION))
        lead = data["lead"]
        return TeamFile(
            uuid=str(data["uuid"]),
            lead=LeadLease(str(lead["session"]), int(lead["pid"]), str(lead.get("lease", ""))),
            incarnations={str(name): int(number) for name, number in data.get("incarnations", {}).items()},
            log=str(data.get("log", "")),
            incarnation_records={
                str(name): parse_incarnation(record) for name, record in data.get("lives", {}).items()
            },
            pending_ends={str(name): parse_pending_end(one) for name, one in data.get("partings", {}).items()},
            ended={
                str(n): EndedIncarnation(str(one["call"]), str(one["cause"]))
                for n, one in data.get("ended", {}).items()
            },
            extra={key: value for key, value in data.items() if key not in _KEYS},
            version=version,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as problem:
        if version > VERSION:
            raise _newer_version_error(version) from problem
        raise StorageError("damaged-file", f"team.json is not ours: {problem}") from problem


_KEYS = ("version", "uuid", "lead", "incarnations", "log", "lives", "partings", "ended")


def parse_incarnation(data: Mapping[str, Any]) -> Incarnation:
    """Return one incarnation from its object in the file. Raises ValueError, KeyError, TypeError for an invalid one."""
    return Incarnation(
        incarnation=int(data["incarnation"]),
        transcript=str(data["transcript"]),
        first=str(data["first"]),
        call=str(data.get("call", "")),
        model=None if (model := data.get("model")) is None else str(model),
        max_turns=None if (max_turns := data.get("max_turns")) is None else int(max_turns),
        budget=Budget.from_json(data.get("budget", {})),
        bounds=None if (bounds := data.get("bounds")) is None else AgentBounds.from_json(bounds),
        mode=None if (mode := data.get("mode")) is None else str(Mode(mode)) if mode else "",
        effort=None if (effort := data.get("effort")) is None else parse_effort(effort),
        place=cast("Mapping[str, Any] | None", data.get("place")),
        command=str(data.get("command", "")),
        crashed=str(data.get("crashed", "")),
        entry=dict(data.get("entry", {})),
        extra={key: value for key, value in data.items() if key not in _INCARNATION_KEYS},
    )


def parse_pending_end(data: Mapping[str, Any]) -> PendingEnd:
    return PendingEnd(
        name=str(data["name"]),
        incarnation=int(data["incarnation"]),
        cause=str(data["cause"]),
        told=str(data["told"]),
        agreed_to=str(data.get("agreed_to", "")),
        tasks=tuple(str(id) for id in data.get("tasks", ())),
        tell=bool(data.get("tell", True)),
        keeps=bool(data.get("keeps", False)),
        extra={key: value for key, value in data.items() if key not in _PENDING_END_KEYS},
    )


_INCARNATION_KEYS = frozenset(Incarnation.__annotations__) - {"extra"}


_PENDING_END_KEYS = frozenset(PendingEnd.__annotations__) - {"extra"}


def _newer_version_error(version: int) -> StorageError:
    return StorageError(
        "newer-version",
        f"team.json has version {version}, and this Teamwright knows {VERSION}: the team can be read, not changed",
        do=["use the newer Teamwright that wrote it"],
        note="nothing was written",
    )


def read_team_file(path: Path) -> TeamFile | None:
    """Return the file at this path, None without one: then the team is another product's. Raises StorageError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    known = _CACHE.get(str(path))
    if known is not None and known.raw == raw:
        return known.file
    file = parse_team_file(raw)
    _remember(path, _CachedFile(raw, file, known.encoder if known is not None else IndentedJson()))
    return file


class _CachedFile(NamedTuple):
    """One file as this process read or wrote it last: the same bytes are not parsed again."""

    raw: bytes
    file: TeamFile
    encoder: IndentedJson


_CACHE: dict[str, _CachedFile] = {}


_CACHE_SIZE = 16


def _remember(path: Path, known: _CachedFile) -> None:
    _CACHE.pop(str(path), None)
    _CACHE[str(path)] = known
    while len(_CACHE) > _CACHE_SIZE:
        _CACHE.pop(next(iter(_CACHE)), None)


class TeamStateFile:
    """team.json of the team in one directory: the state of the team as a document (see AtomicRecord)."""

    def __init__(self, home: Home, directory: str) -> None:
        self._home = home
        self._directory = directory
        self.path = home.team_file(directory)

    @property
    def place(self) -> str:
        """See AtomicRecord: the directory of the team."""
        return str(self.path.parent)

    async def read(self) -> TeamFile | None:
        return read_team_file(self.path)

    async def change(self, change: Callable[[TeamFile], TeamFile]) -> TeamFile:
        """See AtomicRecord. Raises StorageError (`damaged-file`) when there is no file."""
        path = self.path
        if not path.exists():
            raise StorageError("damaged-file", f"{path} is missing")
        async with lock_for(path, self._home.guard(path)).hold() as lock:
            before = read_team_file(path)
            if before is None:
                raise StorageError("damaged-file", f"{path} is missing")
            if before.version > VERSION:
                raise _newer_version_error(before.version)
            after = change(before)
            if after != before:
                lock.check()
                encoder = _CACHE[str(path)].encoder if str(path) in _CACHE else IndentedJson()
                raw = after.encode(encoder)
                write_atomic(path, raw)
                _remember(path, _CachedFile(raw, after, encoder))
        return after

    def mark(self) -> FileMark | None:
        return file_mark(self._home.shared, self.path)

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        return watcher.follow(self.path, on_change)

    async def restore(self) -> Path | None:
        """Write the file from this process's memory when it is missing or damaged. Returns the copy of damaged bytes.

        Raises StorageError (`damaged-file`) when this process never read it whole, LockTimeout, LockLost.
        """
        path = self.path
        known = _CACHE.get(str(path))
        if known is None or not self._home.config(self._directory).exists():
            raise StorageError("damaged-file", f"{path} is missing or damaged")
        async with lock_for(path, self._home.guard(path)).hold() as lock:
            try:
                if read_team_file(path) is not None:
                    return None
            except StorageError as problem:
                if problem.slug != "damaged-file":
                    raise
            lock.check()
            copy = keep_damaged_copy(path) if path.exists() else None
            write_atomic(path, known.raw)
        return copy


async def take_lead(state: AtomicRecord[TeamFile], lead: LeadLease, log: str = "") -> TeamFile:
    """Make this process the lead; `log` is the path of its session's events, empty: unchanged.

    Raises TeamRefused when another process leads, checked under the lock: of two attempts one is refused.
    """

    def with_lead(file: TeamFile) -> TeamFile:
        if (file.lead.session, file.lead.lease) != (lead.session, lead.lease) and is_lead_alive(file.lead):
            raise TeamRefused(
                "team-refused",
                "the team is led by another process",
                looked_at=[("team", state.place), ("process", str(file.lead.pid))],
                do=["continue in the terminal where it runs", "end it there first"],
                note="nothing was changed",
            )
        return replace(file, lead=lead, log=log or file.log)

    return await state.change(with_lead)


def is_lead_alive(lead: LeadLease) -> bool:
    """Return True when that lead is alive: its lease is held; without a lease, its process exists."""
    if lead.lease:
        return lease_held(Path(lead.lease))
    return process_exists(lead.pid)


def lead_of_session(session: str, directory: Path) -> LeadLease:
    """Return the lead of a session: the process that holds the lease in the session's directory."""
    return LeadLease(session, 0, str(lease_path(directory)))


def process_directory(transcript: Path) -> Path:
    """Return the process directory of the member with this transcript."""
    return transcript.parent.parent / "members" / transcript.stem


_STORED_KEYS = ("agentId", "name", "agentType", "model", "color", "planModeRequired", "joinedAt", "cwd", "worktreePath")
"""Keys of a roster entry that team.json keeps with an incarnation; its other files contain the rest."""


def stored_entry(member: RosterMember) -> dict[str, Any]:
    """Return the part of a member's roster entry that team.json keeps."""
    whole = member.to_json()
    return {key: whole[key] for key in _STORED_KEYS if key in whole}
