"""The audit of a team from its files alone: lost or repeated messages, orphans and damage.

Inboxes, archives, transcripts, tasks, requests, logs and locks are read in one pass each. No process is asked or ended,
nothing is locked or changed, and a damaged file is a problem in the result.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.processes.process_tree import MARK_VARIABLE, list_processes
from teamwright.protocol.ids import LEAD, inbox_stem
from teamwright.protocol.mail import IdleNotification, wire_type
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.file_lease import lease_held, lease_holder, lease_path
from teamwright.storage.lock_file_record import read_guard
from teamwright.storage.locks import DirectoryMark, directory_mark
from teamwright.storage.paths import Home
from teamwright.teams.undelivered_mail import return_notice_id
from teamwright.views.audit.evidence import (
    InboxMessage,
    Key,
    LogEvidence,
    MailEvidence,
    RequestEvidence,
    SentMessage,
    TaskEvidence,
    judge_requests,
    judge_tasks,
    read_logs,
    read_mail,
)
from teamwright.views.audit.team_location import TeamLocation, entries, find_team_location, moment_ms
from teamwright.views.audit.transcript_evidence import DeliveredMessage, TranscriptEvidence, read_transcript


def audit(home: Home, team: str, *, running: Collection[int] = ()) -> Audit:
    """Audit the team of that name or directory, on disk or in the archive (the newest of a name).

    `running` are processes that are expected to live, such as the caller's own. Unread mail of a team on disk counts as
    waiting. A process that runs the session is an orphan unless it is expected. Raises TeamwrightError (`unknown-team`)
    when there is no such team, and nothing else.
    """
    place = find_team_location(home, team)
    mail = read_mail(place.inboxes)
    logs = read_logs(place)
    ledgers = [read_transcript(one) for one in place.transcripts]
    tasks = judge_tasks(place, logs)
    requests = judge_requests(place, mail, logs)
    return Audit(
        team=place.name,
        directory=place.directory,
        state=place.state,
        messages=judge_messages(place, mail, ledgers, logs),
        tasks=tasks,
        transcripts=_transcripts(ledgers),
        requests=requests,
        remains=find_orphans(place, logs.drivers, running),
        events=logs.events,
        log=tuple(logs.problems),
        damaged=(
            *(f"{place.path}: {damage}" for damage in place.damaged),
            *mail.damaged,
            *tasks.damaged,
            *requests.damaged,
        ),
    )


class Audit(Struct, frozen=True):
    """The findings in the files of one team. `clean` is True when `problems`, a sentence each, is empty.

    `damaged` are damaged files other than transcripts; `log` has the faults in numbers and lines of the event logs,
    which contain `events` events.
    """

    team: str
    directory: str
    state: str
    messages: MessageVerdicts
    tasks: TaskEvidence
    transcripts: TranscriptCounts
    requests: RequestEvidence
    remains: Orphans
    events: int = 0
    log: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """All problems, a sentence each."""
        return list(_problems(self))

    @property
    def clean(self) -> bool:
        """True when there is no problem."""
        return next(_problems(self), None) is None

    def lines(self) -> list[tuple[str, str]]:
        """Return the figures for people: subjects and their counts."""
        mail = self.messages
        tasks = self.tasks
        sent = f"{mail.sent} sent  {mail.seen} seen  {len(mail.lost)} lost  {len(mail.doubled)} doubled"
        more = [(mail.waiting, "waiting"), (len(mail.told_instead), "returned"), (mail.taken, "taken by others")]
        sent += "".join(f"  {number} {word}" for number, word in more if number)
        done = f"{tasks.done} done  {len(tasks.twice)} twice  {len(tasks.orphaned)} orphaned"
        return [
            ("messages", sent),
            ("tasks", done + (f"  {tasks.open} open" if tasks.open else "")),
            ("transcripts", f"{self.transcripts.loadable} of {self.transcripts.total} load"),
            ("processes left", str(len(self.remains.processes))),
            ("locks left", str(len(self.remains.locks))),
        ]

    def report(self, *more: tuple[str, str]) -> list[str]:
        """Return the figures, the caller's `more` figures and every problem, as lines for people."""
        figures = [f"  {subject:<16}{text}" for subject, text in (*self.lines(), *more)]
        return [*figures, *(f"  ! {problem}" for problem in self.problems)]

    def rows(self) -> list[dict[str, Any]]:
        """Return all findings as JSON objects, one for each subject."""
        left = self.remains
        return [
            {"row": "team", "name": self.team, "directory": self.directory, "state": self.state, "clean": self.clean},
            {"row": "messages", **_fields(self.messages)},
            {"row": "tasks", **_fields(self.tasks)},
            {"row": "transcripts", **_fields(self.transcripts), "whole": self.transcripts.loadable},
            {"row": "requests", **_fields(self.requests)},
            {
                "row": "locks",
                "left": [_lock_json(one) for one in left.locks],
                "strange": [_lock_json(one) for one in left.foreign],
            },
            {"row": "processes", "left": [{"pid": one.pid, "why": one.why} for one in left.processes]},
            {"row": "files", "bells": [*map(str, left.doorbells)], "debris": [*map(str, left.debris)]},
            {"row": "log", "events": self.events, "wrong": list(self.log)},
            {"row": "problems", "problems": self.problems, "damaged": list(self.damaged)},
        ]


class TranscriptCounts(Struct, frozen=True):
    """The transcripts of lead, members and sub-agents: their number, and those that do not load, with the reason.

    `owing` end with a delivered message without an answer; `torn` end in an incomplete line. Both are normal after a
    kill, and a resume repairs them.
    """

    total: int = 0
    broken: tuple[tuple[str, str], ...] = ()
    owing: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()

    @property
    def loadable(self) -> int:
        """The number of transcripts that load."""
        return self.total - len(self.broken)


def _transcripts(ledgers: Sequence[TranscriptEvidence]) -> TranscriptCounts:
    ledgers_by_path = [(str(ledger.transcript.path), ledger) for ledger in ledgers]
    return TranscriptCounts(
        total=len(ledgers),
        broken=tuple((path, "; ".join(ledger.problems)) for path, ledger in ledgers_by_path if not ledger.loads),
        owing=tuple(path for path, ledger in ledgers_by_path if ledger.owes),
        torn=tuple(path for path, ledger in ledgers_by_path if ledger.torn),
    )


# ── problems, a sentence each ──────────────────────────────────────────────────────────────────────────────────


def _problems(audit: Audit) -> Iterator[str]:
    yield from _message_problems(audit.messages)
    yield from _task_problems(audit.tasks)
    for path, why in audit.transcripts.broken:
        yield f"the transcript {path} does not load: {why}"
    yield from _request_problems(audit)
    for lock in audit.remains.locks:
        yield f"the lock {lock.path} was left by process {lock.pid or 'unknown'}, {lock.age_s:.0f} s ago"
    for process in audit.remains.processes:
        yield f"process {process.pid} lives: it {process.why}"
    if bells := audit.remains.doorbells:
        yield f"doorbell sockets are left in {bells[0].parent} ({len(bells)}), and the team has no lead"
    for wrong in audit.log:
        yield f"the event log {wrong}"
    for damage in audit.damaged:
        yield f"damaged: {damage}"


def _message_problems(mail: MessageVerdicts) -> Iterator[str]:
    for ids, one, many in (
        (mail.lost, "message is lost", "messages are lost"),
        (mail.doubled, "message was delivered twice", "messages were delivered twice"),
        (mail.strayed, "message was delivered to another member", "messages were delivered to another member"),
        (mail.stranded, "message was never read, and its reader is gone", "messages were never read, readers gone"),
        (mail.again, "prompt or notice was delivered twice", "prompts or notices were delivered twice"),
    ):
        if ids:
            yield f"{len(ids)} {one if len(ids) == 1 else many}: {_list_ids(ids)}"


def _task_problems(tasks: TaskEvidence) -> Iterator[str]:
    for id in tasks.twice:
        yield f"task #{id} was completed twice"
    for id in tasks.orphaned:
        yield f"task #{id} is in progress, and its owner is not on the roster"
    for id, blocker in tasks.out_of_order:
        yield f"task #{id} was completed before #{blocker}, for which it waits"
    for id in tasks.reused:
        yield f"the number #{id} was given to two tasks"
    for ids in tasks.doubled:
        yield f"one call made {len(ids)} tasks: {_list_ids([f'#{id}' for id in ids])}"


def _request_problems(audit: Audit) -> Iterator[str]:
    requests = audit.requests
    for id in requests.twice:
        yield f"the request {id} was answered twice"
    for id in requests.unasked:
        yield f"there is an answer to {id}, and no such request"
    if audit.state == "archived":
        for id in requests.open:
            yield f"the request {id} was never answered, and its team is no more"


_IDS_SHOWN = 6
"""Maximum number of ids in one sentence; the fields have all of them."""


def _list_ids(ids: Sequence[str]) -> str:
    rest = len(ids) - _IDS_SHOWN
    return ", ".join(ids[:_IDS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


# ── rows ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _fields(found: Any) -> dict[str, Any]:
    return {name: _value(getattr(found, name)) for name in found.__struct_fields__}


def _value(value: Any) -> Any:
    return [_value(one) for one in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def _lock_json(lock: LeftLock) -> dict[str, Any]:
    return {"path": str(lock.path), "age_s": round(lock.age_s, 3), "pid": lock.pid}


# ── messages ───────────────────────────────────────────────────────────────────────────────────────────────────


class MessageVerdicts(Struct, frozen=True):
    """The messages of a team. `sent` is the sum of all other fields but `refused` and `again`.

    `waiting`: unread, and the reader lives or can be resumed. `taken`: consumed by a program whose transcripts are not
    in the team. `told_instead`: not delivered, and the sender was notified. `lost`: consumed or missing, and in no
    transcript. `stranded`: unread, and the reader cannot be resumed. `strayed`: delivered to another reader. `doubled`:
    delivered twice to one reader. `refused` counts failed sends, also those that partly arrived; `again` are prompts
    and notices that one conversation contains twice.
    """

    sent: int = 0
    seen: int = 0
    waiting: int = 0
    taken: int = 0
    told_instead: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    stranded: tuple[str, ...] = ()
    strayed: tuple[str, ...] = ()
    refused: int = 0
    again: tuple[str, ...] = ()


SEEN, WAITING, TAKEN, NOTHING = "seen", "waiting", "taken", "nothing"
TOLD_INSTEAD, LOST, DOUBLED, STRANDED, STRAYED = "told_instead", "lost", "doubled", "stranded", "strayed"


def judge_messages(
    place: TeamLocation, mail: MailEvidence, ledgers: Sequence[TranscriptEvidence], logs: LogEvidence
) -> MessageVerdicts:
    """Judge every message that an inbox, a transcript, a log or a sender's result names."""
    evidence = _Evidence(place, mail, ledgers, logs)
    keys = _all_messages(evidence)
    restamped = set(_restamped(evidence)) | set(_twins(evidence))
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key in keys:
        found[evidence.verdict(key, restamped)].append(key[1])
    return MessageVerdicts(
        sent=sum(len(ids) for kind, ids in found.items() if kind != NOTHING) + mail.unstamped,
        seen=len(found[SEEN]),
        waiting=len(found[WAITING]) + mail.unstamped,
        taken=len(found[TAKEN]),
        told_instead=tuple(found[TOLD_INSTEAD]),
        lost=tuple(found[LOST]),
        doubled=tuple(found[DOUBLED]),
        stranded=tuple(found[STRANDED]),
        strayed=tuple(found[STRAYED]),
        refused=sum(len(ledger.failed) for ledger in ledgers),
        again=tuple(one for ledger in ledgers for one in ledger.again),
    )


def _all_messages(evidence: _Evidence) -> Iterable[Key]:
    """Return each message once: from its inbox, else from its sender or the log, else from a transcript."""
    keys = dict.fromkeys(evidence.mail.letters)
    ids = {id for _, id in keys}
    named = [(one.to, id) for id, one in evidence.logs.sent.items()]
    for ledger in evidence.ledgers:
        # The files of the other team have the messages that the lead sent in that team's time.
        accepted = [(to, id, moment_ms(at)) for id, (to, at) in ledger.accepted.items()]
        named += [(to, id) for to, id, at in accepted if at is None or evidence.place.within(at)]
    for reader, id in named:
        if id not in ids:
            ids.add(id)
            keys[reader, id] = None
    for id, deliveries in evidence.deliveries.items():
        ledger, one = deliveries[0]
        at = moment_ms(one.at)
        if id not in ids and (ledger.transcript.reader != LEAD or at is None or evidence.place.within(at)):
            keys[ledger.transcript.reader, id] = None
    return keys


def _restamped(evidence: _Evidence) -> Iterator[Key]:
    """Yield messages that another program wrote back without their id, and that were delivered under a new id.

    The sign is one reader with the same text of the same sender under two ids. One id is in the inbox, is in no log,
    and was written before the other one was delivered; the other id is no longer in the inbox.
    """
    same: defaultdict[tuple[str, int], list[tuple[str, DeliveredMessage]]] = defaultdict(list)
    for id, deliveries in evidence.deliveries.items():
        for ledger, one in deliveries:
            if one.words is not None and ledger.transcript.reader:
                same[ledger.transcript.reader, one.words].append((id, one))
    letters = evidence.mail.letters
    for (reader, _), group in same.items():
        gone = [one for id, one in group if (reader, id) not in letters]
        if not gone or len(group) < 2:
            continue
        latest = max((moment_ms(one.at) or 0.0) for one in gone)
        for id, _ in group:
            letter = letters.get((reader, id))
            if letter is None or id in evidence.logs.sent:
                continue
            written = moment_ms(letter.timestamp)
            if written is None or written <= latest:
                yield reader, id


def _twins(evidence: _Evidence) -> Iterator[Key]:
    """Yield entries that differ from an earlier one in the id alone: they received a second id."""
    first: dict[tuple[str, str, int, str], str] = {}
    for (reader, id), letter in evidence.mail.letters.items():
        if not letter.timestamp or id not in evidence.deliveries:
            continue
        if first.setdefault((reader, letter.sender, letter.text, letter.timestamp), id) != id:
            yield reader, id


_IDLE = wire_type(IdleNotification)


class _Evidence(Struct):
    place: TeamLocation
    mail: MailEvidence
    ledgers: Sequence[TranscriptEvidence]
    logs: LogEvidence
    deliveries: dict[str, list[tuple[TranscriptEvidence, DeliveredMessage]]] = field(
        default_factory=dict[str, "list[tuple[TranscriptEvidence, DeliveredMessage]]"]
    )
    last_idle: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    idle_since: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    births: dict[str, float] = field(default_factory=dict[str, float])
    failed: set[tuple[str, str, int]] = field(default_factory=set[tuple[str, str, int]])
    known: set[str] = field(default_factory=set[str])
    """Ids of all messages in an inbox or a transcript."""

    def __post_init__(self) -> None:
        for ledger in self.ledgers:
            reader = ledger.transcript.reader
            for id, delivery in ledger.deliveries.items():
                self.deliveries.setdefault(id, []).append((ledger, delivery))
            self.births[reader] = max(self.births.get(reader, 0.0), ledger.transcript.began_ms)
            self.failed |= {(reader, one.to, one.text) for one in ledger.failed}
        for one in self.logs.sent.values():
            if one.wire == _IDLE:
                self.last_idle[inbox_stem(one.sender).lower(), one.to] = one.number
        self.known = {*self.deliveries, *(id for _, id in self.mail.letters)}
        for (reader, _), letter in self.mail.letters.items():
            if letter.idle:
                pair = (inbox_stem(letter.sender).lower(), reader)
                self.idle_since[pair] = max(self.idle_since.get(pair, ""), letter.timestamp)

    def verdict(self, key: Key, restamped: set[Key]) -> str:
        """Return the verdict on this message."""
        reader, id = key
        deliveries = self.deliveries.get(id, ())
        own = [(ledger, one) for ledger, one in deliveries if ledger.transcript.reader == reader]
        if own:
            if key in restamped or any(one.times > 1 for _, one in own):
                return DOUBLED
            # When an incarnation ended before its answer, the message may be delivered to the next one again.
            answered = [ledger for ledger, _ in own if id not in ledger.unanswered]
            return DOUBLED if len(own) > 1 and len(answered) > 1 else STRAYED if len(deliveries) > len(own) else SEEN
        if deliveries:
            return STRAYED
        letter = self.mail.letters.get(key)
        if self._was_returned(id):
            return TOLD_INSTEAD
        return self._vanished(key) if letter is None else self._unseen(key, letter)

    def _vanished(self, key: Key) -> str:
        """Return the verdict on a message that is in no inbox and no transcript."""
        sending = self.logs.sent.get(key[1])
        if sending is not None and self._was_replaced(sending):
            return NOTHING
        return LOST if self.place.has_own_transcript(key[0]) else TAKEN

    def _was_replaced(self, sending: SentMessage) -> bool:
        """Return True for a plain idle notice that a later idle notice of its sender replaced while it was unread."""
        if sending.wire != _IDLE or sending.summary != "idle":
            return False
        pair = (inbox_stem(sending.sender).lower(), sending.to)
        return self.last_idle.get(pair, -1) > sending.number or pair in self.idle_since

    def _unseen(self, key: Key, letter: InboxMessage) -> str:
        """Return the verdict on a message that is in an inbox and in no transcript."""
        reader = key[0]
        if not letter.read and letter.quiet:
            return NOTHING
        if self._is_moot(reader, letter):
            return NOTHING
        if self._sender_knows(reader, letter):
            return TOLD_INSTEAD
        if not letter.read:
            return WAITING if self.place.can_resume(reader) else STRANDED
        return LOST if self.place.has_own_transcript(reader) else TAKEN

    def _is_moot(self, reader: str, letter: InboxMessage) -> bool:
        """Return True for a request or notice of the runtime without effect: its reader is gone or was restarted since.

        Messages with text count, also the text in an idle notice.
        """
        if not letter.wire:
            return False
        if not letter.read:
            return not letter.idle and not self.place.can_resume(reader)
        written = moment_ms(letter.timestamp)
        return reader != LEAD and written is not None and written <= self.births.get(reader, 0.0)

    def _was_returned(self, id: str) -> bool:
        """Return True when a notice said that the reader ended before it read the message."""
        return return_notice_id(id) in self.known

    def _sender_knows(self, reader: str, letter: InboxMessage) -> bool:
        sender = inbox_stem(letter.sender).lower()
        return any((sender, to, letter.text) in self.failed for to in (reader, "*"))


# ── orphans ────────────────────────────────────────────────────────────────────────────────────────────────────


class Orphans(Struct, frozen=True):
    """The orphans. `locks` are Teamwright's own unused locks; `foreign` may be another program's, or in use.

    `doorbells` are those of a team without a lead. `debris` is harmless: drafts of interrupted writes, unused
    doorbells, copies of damaged inboxes, retired locks.
    """

    locks: tuple[LeftLock, ...] = ()
    foreign: tuple[LeftLock, ...] = ()
    processes: tuple[LeftProcess, ...] = ()
    doorbells: tuple[Path, ...] = ()
    debris: tuple[Path, ...] = ()


class LeftLock(Struct, frozen=True):
    """A lock directory that still exists. `pid` created it; 0 for an unknown process."""

    path: Path
    age_s: float
    pid: int = 0


class LeftProcess(Struct, frozen=True):
    """A running process; `why` says how it is known to belong to this team."""

    pid: int
    why: str


def find_orphans(place: TeamLocation, drivers: Collection[int], running: Collection[int] = ()) -> Orphans:
    """Find the orphans. `drivers` ran the team, `running` are expected to live. Nothing is raised.

    Locks of an archived team are skipped, because no process uses them.
    """
    locks = [] if place.archived else list(_locks(place))
    leases = {lease_path(session) for session in place.sessions}
    if place.file is not None and place.file.lead.lease and not place.archived:
        leases.add(Path(place.file.lead.lease))
    held_leases = [path for path in sorted(leases) if lease_held(path)]
    holders = {lease_holder(path): path for path in held_leases}
    left = [LeftProcess(pid, f"drives the session of {path}") for pid, path in holders.items() if pid not in running]
    known = {*drivers, *map(_noted_pid, leases), place.file.lead.pid if place.file else 0} - {0}
    known -= set(holders)  # a lease holder is running: its pid in an older record belonged to an earlier process
    left += [one for one in _left_commands(known) if one.pid not in running]
    hung = () if held_leases or place.archived else tuple(entries(TeamDoorbells(place.home, place.directory).place))
    return Orphans(
        locks=tuple(lock for lock, ours in locks if ours),
        foreign=tuple(lock for lock, ours in locks if not ours),
        processes=tuple(left),
        doorbells=tuple(path for path in hung if not path.name.startswith(".")),
        debris=(*_debris(place), *(path for path in hung if path.name.startswith("."))),
    )


def _locks(place: TeamLocation) -> Iterator[tuple[LeftLock, bool]]:
    """Yield existing lock directories, with True for an orphaned lock of Teamwright."""
    for directory in (place.path, place.inboxes, place.tasks):
        for path in entries(directory):
            if path.suffix != ".lock" or not path.is_dir():
                continue
            mark = directory_mark(str(path))
            if mark is not None:
                yield _judge_lock(place, path, mark)


_INTENT_NS = 50_000_000


def _judge_lock(place: TeamLocation, path: Path, mark: DirectoryMark) -> tuple[LeftLock, bool]:
    age = time.time() - mark.mtime_ns / 1e9
    record = read_guard(place.home, path.with_suffix(""))
    pid = record.creator_of(mark)
    begun = bool(record.intent) and abs(mark.mtime_ns - record.intent[0]) <= _INTENT_NS
    return LeftLock(path, age, pid), (bool(pid) or begun) and not record.is_held


def _debris(place: TeamLocation) -> Iterator[Path]:
    for directory in (place.path, place.inboxes, place.tasks, place.requests):
        for path in entries(directory):
            if any(sign in path.name for sign in (".tmp.", ".bad.", ".lock.stale.")):
                yield path


def _left_commands(known: Collection[int]) -> Iterator[LeftProcess]:
    """Yield commands that outlived a process which ran the team, the first of each process family."""
    table = {row.pid: row for row in list_processes()}
    marks = {pid: mark for pid in table if (mark := _process_mark(pid))}
    for pid, mark in sorted(marks.items()):
        starter, _, start = mark.rpartition(".")[0].partition(".")
        is_starter_running = starter.isdigit() and int(starter) in table and table[int(starter)].start == start
        if (
            starter.isdigit()
            and int(starter) in known
            and not is_starter_running
            and marks.get(table[pid].parent) != mark
        ):
            yield LeftProcess(pid, f"was started by process {starter}, which is gone")


def _process_mark(pid: int) -> str:
    """Return the mark of a process: pid and start time of the process that started its family, and digits."""
    beginning = f"{MARK_VARIABLE}=".encode()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
        found = next((part for part in environment.read().split(b"\0") if part.startswith(beginning)), b"")
        return found.removeprefix(beginning).decode("utf-8", "replace")
    return ""


def _noted_pid(lease: Path) -> int:
    """Return the process id in a lease's note, also of a killed process."""
    try:
        note: object = json.loads(lease.read_bytes())
    except (OSError, ValueError, RecursionError):
        return 0
    pid = cast("dict[str, Any]", note).get("pid") if isinstance(note, dict) else None
    return pid if isinstance(pid, int) else 0
