"""Evidence for an audit: what the event logs, inboxes, requests and tasks of a team say, and the damage in them.

Files are read without a lock and left as they are; nothing is raised. A killed process loses the last lines of its log,
so a difference that a lost line explains is no problem.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.mail.inbox import RETRIES, RETRY_S
from teamwright.mail.inbox_file import split_array
from teamwright.protocol.errors import StorageError
from teamwright.protocol.mail import (
    IdleNotification,
    InboxEntry,
    PermissionResponse,
    PlanApprovalResponse,
    ProtocolMessage,
    ShutdownApproved,
    ShutdownRejected,
    parse_entry,
    parse_protocol,
    wire_type,
)
from teamwright.protocol.task import Task, TaskStatus
from teamwright.requests.request_store import parse_file_stem
from teamwright.storage.event_log import log_path
from teamwright.storage.json_array import NotAnArray, read_with_stamp, salvage_entries
from teamwright.storage.json_lines import read_lines
from teamwright.tasks.task_file import DamagedTaskFile, list_numbers, read_task
from teamwright.tasks.task_rules import is_owner
from teamwright.teams.incoming_mail import starts_turn
from teamwright.views.audit.team_location import TeamLocation, entries
from teamwright.views.audit.transcript_evidence import reader_of

# ── event logs ─────────────────────────────────────────────────────────────────────────────────────────────────


class SentMessage(NamedTuple):
    """A sent message, as the log records it."""

    sender: str
    to: str
    wire: str
    summary: str
    number: int


class LoggedTaskChange(NamedTuple):
    """One change of a task."""

    id: str
    change: str
    status: str
    owner: str
    blocked_by: tuple[str, ...]
    by: str
    at: float


class LogEvidence(Struct):
    """All logs together. `sent` by message id, `steps` in their order, `closed` counts the answers of a request.

    `drivers` are the ids of the processes that ran the sessions.
    """

    events: int = 0
    sent: dict[str, SentMessage] = field(default_factory=dict[str, SentMessage])
    steps: list[LoggedTaskChange] = field(default_factory=list[LoggedTaskChange])
    closed: Counter[str] = field(default_factory=Counter[str])
    drivers: set[int] = field(default_factory=set[int])
    problems: list[str] = field(default_factory=list[str])

    def take(self, data: dict[str, Any], place: TeamLocation) -> None:
        """Add one event, if it belongs to the team's time."""
        at = data.get("at")
        pid = data.get("pid")
        if data.get("type") == "session_opened" and isinstance(pid, int):
            self.drivers.add(pid)
        if not isinstance(at, int | float) or not place.within(at * 1000):
            return
        kind = data.get("type")
        member = str(data.get("member", ""))
        if kind == "message_sent":
            self.sent[str(data.get("message_id"))] = SentMessage(
                sender=member,
                to=reader_of(str(data.get("to", ""))),
                wire=str(data.get("wire", "")),
                summary=str(data.get("summary", "")),
                number=len(self.sent),
            )
        elif kind == "task_changed" and isinstance(data.get("task"), dict):
            self.steps.append(
                _logged_change(cast("dict[str, Any]", data["task"]), str(data.get("change", "")), member, at)
            )
        elif kind == "request_closed":
            self.closed[str(data.get("request"))] += 1


_MOST_PROBLEMS = 5


def read_logs(place: TeamLocation) -> LogEvidence:
    """Read all logs of the team's sessions. Faults are in `problems`; nothing is raised."""
    logs = LogEvidence()
    for session in place.sessions:
        path = log_path(session)
        wrong: list[str] = []
        try:
            _read_log(path, logs, place, wrong)
        except OSError as problem:
            wrong.append(f"it cannot be read: {problem.strerror}")
        more = f", and {len(wrong) - _MOST_PROBLEMS} more" if len(wrong) > _MOST_PROBLEMS else ""
        if wrong:
            logs.problems.append(f"{path}: {'; '.join(wrong[:_MOST_PROBLEMS])}{more}")
    return logs


def _read_log(path: Path, logs: LogEvidence, place: TeamLocation, wrong: list[str]) -> None:
    last = 0
    for row, line in enumerate(read_lines(path), 1):
        data = _parse_object(line) or {}
        number = data.get("n")
        if not isinstance(number, int):
            wrong.append(f"line {row} is not a whole event")
            continue
        snapshot = data.get("type") == "snapshot"  # a snapshot has the number of the event before it
        if number != last + (not snapshot):
            wrong.append(f"line {row} has number {number} behind {last}")
        last = number
        if not snapshot:
            logs.events += 1
            logs.take(data, place)


def _logged_change(task: dict[str, Any], change: str, by: str, at: float) -> LoggedTaskChange:
    blockers: object = task.get("blocked_by")
    ids = tuple(str(one) for one in cast("list[Any]", blockers)) if isinstance(blockers, list) else ()
    return LoggedTaskChange(
        str(task.get("id")), change, str(task.get("status")), str(task.get("owner") or ""), ids, by, at
    )


# ── mail ───────────────────────────────────────────────────────────────────────────────────────────────────────

_ANSWER_TYPES = (ShutdownApproved, ShutdownRejected, PlanApprovalResponse, PermissionResponse)


class InboxMessage(NamedTuple):
    """The relevant fields of an entry. `quiet`: the entry never starts a turn, so it may stay unread."""

    sender: str
    text: int
    timestamp: str
    read: bool
    wire: str
    idle: bool
    quiet: bool


Key = tuple[str, str]
"""The reader's inbox (its stem, lower case), and the message's id."""


class MailEvidence(Struct):
    """All entries. `unstamped` counts unread entries without an id; `answers` are ids of messages by request."""

    letters: dict[Key, InboxMessage] = field(default_factory=dict[Key, InboxMessage])
    unstamped: int = 0
    answers: dict[tuple[str, str], set[str]] = field(default_factory=dict[tuple[str, str], set[str]])
    damaged: list[str] = field(default_factory=list[str])

    def add(self, reader: str, fields: Mapping[str, Any], *, archived: bool) -> None:
        """Add an entry; a repeated entry counts once, as consumed when one of them is."""
        entry = parse_entry(fields)
        read = entry.read or archived
        if entry.msg_id is None:
            self.unstamped += not read
            return
        key = (reader, entry.msg_id)
        before = self.letters.get(key)
        if before is not None:
            self.letters[key] = before._replace(read=before.read or read)
            return
        message = parse_protocol(entry.text) if entry.text[:1] == "{" else None
        if isinstance(message, _ANSWER_TYPES):
            self.answers.setdefault((reader, message.request_id), set()).add(entry.msg_id)
        self.letters[key] = _inbox_message(entry, message, read=read)


def read_mail(inboxes: Path) -> MailEvidence:
    """Read all inboxes of a team and their archives. Damaged files are in `damaged`; nothing is raised."""
    mail = MailEvidence()
    for path in entries(inboxes / "archive"):
        if path.suffix == ".jsonl":
            _read_archive(mail, path)
    for path in entries(inboxes):
        if path.suffix == ".json" and path.is_file():
            _read_inbox(mail, path)
    return mail


def _inbox_message(entry: InboxEntry, message: ProtocolMessage | None, *, read: bool) -> InboxMessage:
    idle = isinstance(message, IdleNotification)
    quiet = not message.wakes_reader if isinstance(message, IdleNotification) else not starts_turn(entry)
    wire = "" if message is None else wire_type(message)
    return InboxMessage(entry.sender, hash(entry.text), entry.timestamp or "", read, wire, idle, quiet)


def _read_archive(mail: MailEvidence, path: Path) -> None:
    reader = path.stem.lower()
    torn = 0
    try:
        for line in read_lines(path):
            fields = _parse_object(line)
            if fields is None:
                torn += 1
            else:
                mail.add(reader, fields, archived=True)
    except OSError as problem:
        mail.damaged.append(f"{path}: {problem.strerror}")
    if torn:
        mail.damaged.append(f"{path}: {torn} lines are not whole entries")


def _read_inbox(mail: MailEvidence, path: Path) -> None:
    try:
        found, damaged = _inbox_entries(path)
    except OSError as problem:
        mail.damaged.append(f"{path}: {problem.strerror}")
        return
    for fields in found:
        mail.add(path.stem.lower(), fields, archived=False)
    if damaged:
        mail.damaged.append(f"{path} is not a whole inbox; {len(found)} entries in it are")


def _inbox_entries(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Return the entries, and True for a damaged file. The file is read again, because a write may be in progress."""
    content = b""
    for left in range(RETRIES, -1, -1):
        stamped = read_with_stamp(path)
        if stamped is None:
            return [], False
        content = stamped[1]
        try:
            return [
                item.fields for item in split_array(content, whole=True) if item.is_unread or item.is_consumed
            ], False
        except NotAnArray:
            time.sleep(RETRY_S if left else 0)
    return salvage_entries(content), True


# ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────

_ANSWER_SUFFIX = ".answer.json"


class RequestEvidence(Struct, frozen=True):
    """The requests of a team. `open` wait for an answer; `twice` have two answers; `unasked` are answers without a
    request.
    """

    answered: int = 0
    open: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def judge_requests(place: TeamLocation, mail: MailEvidence, logs: LogEvidence) -> RequestEvidence:
    """Judge all requests of a team: its files, the answers in inboxes, and the log. Nothing is raised."""
    requests: set[str] = set()
    answers: dict[str, Any] = {}
    damaged: list[str] = []
    twice = {request for (_, request), ids in mail.answers.items() if len(ids) > 1}
    twice |= {request for request, times in logs.closed.items() if times > 1}
    for path in (*entries(place.requests), *entries(place.requests / "answered")):
        if path.suffix != ".json":
            continue
        body = _load_request(path)
        if body is None:
            damaged.append(f"{path} is not a whole request")
        id = _request_id(path)
        if not path.name.endswith(_ANSWER_SUFFIX):
            requests.add(id)
        elif answers.setdefault(id, body) != body:
            twice.add(id)
    return RequestEvidence(
        answered=len(requests & answers.keys()),
        open=tuple(sorted(requests - answers.keys())),
        twice=tuple(sorted(twice)),
        unasked=tuple(sorted(answers.keys() - requests)),
        damaged=tuple(damaged),
    )


def _request_id(path: Path) -> str:
    return parse_file_stem(path.name.removesuffix(".json").removesuffix(".answer"))


def _load_request(path: Path) -> dict[str, Any] | None:
    try:
        return _parse_object(path.read_bytes())
    except OSError:
        return None


def _parse_object(data: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; return None for anything else, such as a torn line."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


# ── tasks ──────────────────────────────────────────────────────────────────────────────────────────────────────

CALL = "call"
"""The key in a task's metadata that names the tool call which created it."""


class TaskEvidence(Struct, frozen=True):
    """The tasks of a team. `open` counts all that are not completed; the rest are ids, or pairs of ids.

    `twice`: completed by two owners, or again without being reopened. `orphaned`: in progress, and the owner is not on
    the roster. `out_of_order`: (task, blocker) where the task was completed before the blocker. `reused`: one number
    given to two tasks. `doubled`: tasks that one call created.
    """

    done: int = 0
    open: int = 0
    twice: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    out_of_order: tuple[tuple[str, str], ...] = ()
    reused: tuple[str, ...] = ()
    doubled: tuple[tuple[str, ...], ...] = ()
    damaged: tuple[str, ...] = ()


def judge_tasks(place: TeamLocation, logs: LogEvidence) -> TaskEvidence:
    """Judge all tasks of a team. Nothing is raised."""
    tasks, damaged = _read_tasks(place)
    history = _TaskHistory(logs, place)
    whole = [task for task in tasks.values() if not task.is_internal]
    done = [task for task in whole if task.status is TaskStatus.COMPLETED]
    twice = history.twice | {task.id for task in done if history.says_another(task)}
    return TaskEvidence(
        done=len(done),
        open=len(whole) - len(done),
        twice=_sorted_ids(twice),
        orphaned=_sorted_ids({task.id for task in whole if _is_orphan(place, task)}),
        out_of_order=tuple(
            sorted(history.out_of_order(tasks), key=lambda pair: (_id_order(pair[0]), _id_order(pair[1])))
        ),
        reused=_sorted_ids(history.reused),
        doubled=_tasks_of_one_call(whole),
        damaged=tuple(damaged),
    )


def _read_tasks(place: TeamLocation) -> tuple[dict[str, Task], list[str]]:
    tasks: dict[str, Task] = {}
    damaged: list[str] = []
    try:
        numbers = sorted(list_numbers(place.tasks))
    except StorageError as problem:
        return {}, [problem.what]
    for number in numbers:
        path = place.tasks / f"{number}.json"
        try:
            found = read_task(str(path), str(number))
        except StorageError as problem:
            damaged.append(problem.what)
            continue
        if isinstance(found, DamagedTaskFile):
            damaged.append(f"{path} is not a whole task: {found.reason}")
        elif found is not None and (task := _task_of_team(found.task, place)) is not None:
            tasks[task.id] = task
    return tasks, damaged


def _task_of_team(task: Task, place: TeamLocation) -> Task | None:
    """Return the task with its owner's bare name; None for a task of another team on a shared list."""
    if not place.shared_list or place.file is None:
        return task
    name, at, realm = (task.owner or "").partition("@")
    if at and realm != f"session-{place.file.lead.session[:8]}":
        return None
    return replace(task, owner=name or None)


class _TaskHistory:
    """The steps of all tasks, in the order of the log."""

    def __init__(self, logs: LogEvidence, place: TeamLocation) -> None:
        self.twice: set[str] = set()
        self.reused: set[str] = set()
        self._known = {"team-lead", *(place.file.incarnations if place.file else ())}
        self._last: dict[str, LoggedTaskChange] = {}
        self._completions: defaultdict[str, list[tuple[int, LoggedTaskChange]]] = defaultdict(list)
        self._finished: set[str] = set()
        self._created_ids: set[str] = set()
        for number, step in enumerate(logs.steps):
            self._take(number, step)

    def _take(self, number: int, step: LoggedTaskChange) -> None:
        if step.change == "created":
            if step.id in self._created_ids:
                self.reused.add(step.id)
            self._created_ids.add(step.id)
        if step.change == "completed":
            if step.id in self._finished:
                self.twice.add(step.id)
            self._finished.add(step.id)
            self._completions[step.id].append((number, step))
        elif step.status != TaskStatus.COMPLETED and step.change != "claimed":
            self._finished.discard(step.id)  # reopened: it may be completed again
        self._last[step.id] = step

    def says_another(self, task: Task) -> bool:
        """Return True when the log's newest entry of a task is a completion by another owner than the file's."""
        last = self._last.get(task.id)
        if last is None or last.change != "completed" or not last.owner:
            return False
        return not is_owner(last.owner, task.owner or "")

    def out_of_order(self, tasks: Mapping[str, Task]) -> set[tuple[str, str]]:
        """Return pairs of a task and a blocker that was completed after it, or is still open."""
        found: set[tuple[str, str]] = set()
        for id, completions in self._completions.items():
            for number, step in completions:
                found |= {(id, one) for one in step.blocked_by if self._was_open(one, number, step.at, tasks)}
        for task in tasks.values():
            if task.status is TaskStatus.COMPLETED and task.id not in self._completions:
                waits = [one for one in task.blocked_by if one in tasks]
                found |= {(task.id, one) for one in waits if tasks[one].status is not TaskStatus.COMPLETED}
        return found

    def _was_open(self, id: str, number: int, at: float, tasks: Mapping[str, Task]) -> bool:
        """Return True when that blocker was open at this step. Other members' steps are logged late and prove no order.

        A member whose lead was killed reports its steps to the next lead: their times count, not their positions.
        """
        completions = self._completions.get(id, ())
        if any(when < number or step.at <= at for when, step in completions):
            return False
        if completions:
            return completions[0][1].by.lower() in self._known
        return id in tasks and tasks[id].status is not TaskStatus.COMPLETED


def _is_orphan(place: TeamLocation, task: Task) -> bool:
    if task.status is not TaskStatus.IN_PROGRESS or place.config is None:
        return False
    return task.owner is None or not any(is_owner(task.owner, member.name) for member in place.config.members)


def _tasks_of_one_call(tasks: list[Task]) -> tuple[tuple[str, ...], ...]:
    tasks_of_call: defaultdict[str, list[str]] = defaultdict(list)
    for task in tasks:
        call = (task.metadata or {}).get(CALL)
        if call:
            tasks_of_call[call if isinstance(call, str) else json.dumps(call)].append(task.id)
    return tuple(tuple(ids) for ids in tasks_of_call.values() if len(ids) > 1)


def _sorted_ids(ids: set[str]) -> tuple[str, ...]:
    return tuple(sorted(ids, key=_id_order))


def _id_order(id: str) -> tuple[int, str]:
    return (len(id), id)
