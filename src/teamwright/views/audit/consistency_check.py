"""The audit of a team from its files alone: lost or repeated messages, orphans and damage.

`audit` reads inboxes, archives, transcripts, tasks, requests, logs and locks, in one pass each, and asks no process. It
locks nothing and changes nothing; a damaged file is a problem in the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

from msgspec import Struct

from teamwright.storage.paths import Home
from teamwright.views.audit.log_evidence import read_logs
from teamwright.views.audit.mail_evidence import read_mail
from teamwright.views.audit.message_verdicts import MessageVerdicts, judge_messages
from teamwright.views.audit.orphan_evidence import LeftLock, Orphans, find_orphans
from teamwright.views.audit.request_evidence import RequestEvidence, judge_requests
from teamwright.views.audit.task_evidence import TaskEvidence, judge_tasks
from teamwright.views.audit.team_location import TeamLocation, find_team_location
from teamwright.views.audit.transcript_evidence import TranscriptEvidence, read_transcript

_SHOWN = 6
"""Maximum number of ids in one sentence; the fields have all of them."""


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
        mail, tasks = self.messages, self.tasks
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
            {"row": "messages", **_plain(self.messages)},
            {"row": "tasks", **_plain(self.tasks)},
            {"row": "transcripts", **_plain(self.transcripts), "whole": self.transcripts.loadable},
            {"row": "requests", **_plain(self.requests)},
            {
                "row": "locks",
                "left": [_lock(one) for one in left.locks],
                "strange": [_lock(one) for one in left.foreign],
            },
            {"row": "processes", "left": [{"pid": one.pid, "why": one.why} for one in left.processes]},
            {"row": "files", "bells": [*map(str, left.doorbells)], "debris": [*map(str, left.debris)]},
            {"row": "log", "events": self.events, "wrong": list(self.log)},
            {"row": "problems", "problems": self.problems, "damaged": list(self.damaged)},
        ]


def audit(home: Home, team: str, *, running: Collection[int] = ()) -> Audit:
    """Audit the team of that name or directory, on disk or in the archive (the newest of a name).

    `running` are processes that are expected to live, such as the caller's own. Unread mail of a team on disk counts as
    waiting. A process that runs the session is an orphan unless it is expected. Raises TeamwrightError (`unknown-team`)
    when there is no such team, and nothing else.
    """
    place = find_team_location(home, team)
    mail, logs = read_mail(place.inboxes), read_logs(place)
    ledgers = [read_transcript(one) for one in place.transcripts]
    tasks, requests = judge_tasks(place, logs), judge_requests(place, mail, logs)
    remains = find_orphans(place, logs.drivers, running)
    return Audit(
        team=place.name,
        directory=place.directory,
        state=place.state,
        messages=judge_messages(place, mail, ledgers, logs),
        tasks=tasks,
        transcripts=_transcripts(ledgers),
        requests=requests,
        remains=remains,
        events=logs.events,
        log=tuple(logs.problems),
        damaged=(*_of_team(place), *mail.damaged, *tasks.damaged, *requests.damaged),
    )


def _of_team(place: TeamLocation) -> list[str]:
    return [f"{place.path}: {word}" for word in place.damaged]


def _transcripts(ledgers: Sequence[TranscriptEvidence]) -> TranscriptCounts:
    path_of = [(str(ledger.transcript.path), ledger) for ledger in ledgers]
    return TranscriptCounts(
        total=len(ledgers),
        broken=tuple((path, "; ".join(ledger.problems)) for path, ledger in path_of if not ledger.loads),
        owing=tuple(path for path, ledger in path_of if ledger.owes),
        torn=tuple(path for path, ledger in path_of if ledger.torn),
    )


# ── sentences ────────────────────────────────────────────────────────────────────────────────────────────────


def _problems(audit: Audit) -> Iterator[str]:
    yield from _of_messages(audit.messages)
    yield from _of_tasks(audit.tasks)
    for path, why in audit.transcripts.broken:
        yield f"the transcript {path} does not load: {why}"
    yield from _of_requests(audit)
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


def _of_messages(mail: MessageVerdicts) -> Iterator[str]:
    for ids, one, many in (
        (mail.lost, "message is lost", "messages are lost"),
        (mail.doubled, "message was delivered twice", "messages were delivered twice"),
        (mail.strayed, "message was delivered to another member", "messages were delivered to another member"),
        (mail.stranded, "message was never read, and its reader is gone", "messages were never read, readers gone"),
        (mail.again, "prompt or notice was delivered twice", "prompts or notices were delivered twice"),
    ):
        if ids:
            yield f"{len(ids)} {one if len(ids) == 1 else many}: {_list_ids(ids)}"


def _of_tasks(tasks: TaskEvidence) -> Iterator[str]:
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


def _of_requests(audit: Audit) -> Iterator[str]:
    requests = audit.requests
    for id in requests.twice:
        yield f"the request {id} was answered twice"
    for id in requests.unasked:
        yield f"there is an answer to {id}, and no such request"
    if audit.state == "archived":
        for id in requests.open:
            yield f"the request {id} was never answered, and its team is no more"


def _list_ids(ids: Sequence[str]) -> str:
    rest = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _plain(found: Any) -> dict[str, Any]:
    return {name: _value(getattr(found, name)) for name in found.__struct_fields__}


def _value(value: Any) -> Any:
    return [_value(one) for one in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def _lock(lock: LeftLock) -> dict[str, Any]:
    return {"path": str(lock.path), "age_s": round(lock.age_s, 3), "pid": lock.pid}
