"""Tasks: their states, their file format, and the metadata keys of Teamwright.

Keys and their order are as observed: id, subject, description, activeForm, owner, status, blocks, blockedBy, metadata;
after them createdAt, updatedAt and the keys of other programs, which are kept. Blocked is never stored:
`open_blockers` derives it. The notes on a task's integration and on its review are values of its metadata; the queue of
commits is in `worktrees`, the rules of reviews are in `tasks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, cast

from msgspec import Struct, ValidationError, convert, field, to_builtins
from msgspec.structs import replace

from teamwright.protocol.ids import iso_time, now_ms, parse_iso_ms


class TaskStatus(StrEnum):
    """States of a task; `deleted` exists only as a requested status, never on disk."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


CALL = "call"
"""Metadata key with the id of the call that created the task: repeated after a kill, it creates no second one."""

CHECK = "check"
"""Metadata key: a shell command that must succeed before the task is completed (ours)."""

CHECKED = "checked"
"""Metadata key: the commands that succeeded when it was completed. Only the runtime writes it (ours)."""

INTEGRATION = "integration"
"""Metadata key: the commit that a completed task adds to the team's branch. Only the runtime writes it (ours)."""

WRITES = "writes"
"""Metadata key: the patterns of the paths that the task changes (ours)."""

WORKTREE = "worktree"
"""Metadata key: True while the owner of a task with `writes` works in a worktree. Only the runtime writes it (ours)."""

REVIEW = "review"
"""Metadata key: the reviewer that a completion needs, `member`, `lead` or `human` (ours)."""

REVIEWED = "reviewed"
"""Metadata key: the state of the review. Only the runtime writes it (ours)."""

DRAFT = "draft"
"""Metadata key: the agent that still describes the task, and until when idle members do not claim it (ours)."""

CREATED_AT = "createdAt"
"""Key with the time of the creation, in ms since 1970 (as documented for other programs)."""

UPDATED_AT = "updatedAt"
"""Key with the time of the last change, in ms since 1970 (as documented for other programs)."""

_TIMES = frozenset({CREATED_AT, UPDATED_AT})

_LATEST_MS = 10**14
"""A time beyond it is not one in ms: it is in the year 5138."""

_HIDDEN_KEYS = frozenset({CALL, DRAFT})
"""Metadata keys that no model and no program needs."""

DRAFT_MS = 5_000
"""Milliseconds that idle members wait after the creator's last change of the list."""

_quoted = json.JSONEncoder(ensure_ascii=False).encode
_NEXT = ",\n  "
_DEEPER = ",\n    "
_KNOWN_KEYS = ("id", "subject", "description", "activeForm", "owner", "status", "blocks", "blockedBy", "metadata")
_REQUIRED = ("subject", "description", "status", "blocks", "blockedBy")


class TaskDraft(Struct, frozen=True):
    """A note that `by` still describes a task. Idle members do not claim it before `until` (ms since 1970)."""

    by: str
    until: int

    def is_open(self, now: int) -> bool:
        """Return True when the note is valid at `now` (ms). An end more than DRAFT_MS ahead comes from a
        wrong clock and is not valid."""
        return now < self.until <= now + DRAFT_MS


class Task(Struct, frozen=True):
    """One task as its file contains it. `owner` is None for a task without an owner (also an empty string on disk)."""

    id: str
    subject: str
    description: str
    status: TaskStatus = TaskStatus.PENDING
    active_form: str | None = None
    owner: str | None = None
    blocks: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def number(self) -> int:
        """The id as a number, for sorting."""
        return int(self.id)

    @property
    def is_internal(self) -> bool:
        """True when another program uses this file for internal data: hidden from lists, claims and counts."""
        return bool(self.metadata and self.metadata.get("_internal"))

    @property
    def reserved_for(self) -> tuple[str, ...]:
        """The names in `metadata.for`: only they may claim it (a key of Teamwright)."""
        return _names(self.metadata, "for")

    @property
    def budget(self) -> Mapping[str, Any] | None:
        """The caps in `metadata.budget`, unparsed (a key of Teamwright)."""
        value: Any = (self.metadata or {}).get("budget")
        return cast("Mapping[str, Any]", value) if isinstance(value, dict) and value else None

    @property
    def needs(self) -> tuple[str, ...]:
        """The tool names in `metadata.needs`: a claimer must have them (a key of Teamwright)."""
        return _names(self.metadata, "needs")

    @property
    def check(self) -> str:
        """The command in `metadata.check`: it must succeed before the task is completed; empty when there is none."""
        value: Any = (self.metadata or {}).get(CHECK)
        return value.strip() if isinstance(value, str) else ""

    @property
    def draft(self) -> TaskDraft | None:
        """The note in `metadata.draft` that the creator has not finished describing the task."""
        value: Any = (self.metadata or {}).get(DRAFT)
        if not isinstance(value, dict):
            return None
        noted = cast("Mapping[str, Any]", value)
        by = noted.get("by")
        until = noted.get("until")
        return TaskDraft(by, until) if isinstance(by, str) and type(until) is int else None

    @property
    def writes(self) -> tuple[str, ...]:
        """The path patterns in `metadata.writes`; empty for a task that declares none (a key of Teamwright)."""
        return _names(self.metadata, WRITES)

    @property
    def in_worktree(self) -> bool:
        """True when a task with `writes` is worked on in a worktree."""
        return (self.metadata or {}).get(WORKTREE) is True

    @property
    def review(self) -> Reviewer | None:
        """The reviewer that its completion needs; None when it needs no review."""
        value: Any = (self.metadata or {}).get(REVIEW)
        return Reviewer(value) if isinstance(value, str) and value in tuple(Reviewer) else None

    @property
    def review_note(self) -> ReviewNote | None:
        """The state of its review in `metadata.reviewed`; None before the task was begun."""
        return parse_review_note((self.metadata or {}).get(REVIEWED))

    @property
    def in_review(self) -> bool:
        """True while its finished work waits for the answer of a reviewer."""
        if self.status is not TaskStatus.IN_PROGRESS or not self.metadata or REVIEWED not in self.metadata:
            return False
        noted = self.review_note
        return noted is not None and noted.state is ReviewState.WAITING

    @property
    def awaits_approval(self) -> bool:
        """True when it is completed without the approval that it requires: another program completed it."""
        if self.status is not TaskStatus.COMPLETED or not self.metadata or self.review is None:
            return False
        noted = self.review_note
        return noted is None or noted.state is not ReviewState.APPROVED

    def passed_checks(self, *commands: str) -> bool:
        """Return True when the task was completed with these checks."""
        return set(commands) <= set(_names(self.metadata, CHECKED))

    @property
    def is_unverified(self) -> bool:
        """True when it is completed and has a check that Teamwright did not see succeed."""
        return self.status is TaskStatus.COMPLETED and bool(self.check) and not self.passed_checks(self.check)

    @property
    def integration(self) -> TaskIntegration | None:
        """The commit in `metadata.integration`; None for a task whose work is in no worktree."""
        return parse_task_integration((self.metadata or {}).get(INTEGRATION))

    @property
    def awaits_integration(self) -> bool:
        """True when it is completed, and its commit is neither integrated nor returned."""
        if self.status is not TaskStatus.COMPLETED or not self.metadata or INTEGRATION not in self.metadata:
            return False
        noted = self.integration
        return noted is not None and noted.state is IntegrationState.QUEUED

    @property
    def is_finished(self) -> bool:
        """True when it blocks no other task any more: completed, approved and integrated, where it has to be."""
        return self.status is TaskStatus.COMPLETED and not self.awaits_integration and not self.awaits_approval

    @property
    def created_ms(self) -> int:
        """The time of its creation, in ms since 1970; 0 when its file does not say."""
        return _time_ms(self.extra.get(CREATED_AT))

    @property
    def changed_ms(self) -> int:
        """The time of its last change, in ms since 1970; 0 when its file does not say."""
        return _time_ms(self.extra.get(UPDATED_AT))

    def copy_with(self, **changes: Any) -> Task:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Return the file's object, keys in the observed order, absent ones left out."""
        out: dict[str, Any] = {"id": self.id, "subject": self.subject, "description": self.description}
        if self.active_form is not None:
            out["activeForm"] = self.active_form
        if self.owner is not None:
            out["owner"] = self.owner
        out |= {"status": str(self.status), "blocks": list(self.blocks), "blockedBy": list(self.blocked_by)}
        if self.metadata is not None:
            out["metadata"] = dict(self.metadata)
        return out | dict(self.extra)

    def with_times(self, before: Task | None) -> Task:
        """Return the task with the times of a write: `before` is its former state, None for a new task.

        `updatedAt` is renewed by every change, also one that another program has left; nothing changes without one.
        """
        if before is not None and self == before:
            return self
        now = now_ms()
        if before is None:
            return replace(self, extra={**self.extra, CREATED_AT: self.extra.get(CREATED_AT, now), UPDATED_AT: now})
        is_text = isinstance(self.extra.get(UPDATED_AT), str)  # another program may write its times so
        return replace(self, extra={**self.extra, UPDATED_AT: iso_time() if is_text else now})

    def shown_json(self) -> dict[str, Any]:
        """Return the object as models and programs read it: without the metadata that only the runtime uses."""
        out = self.to_json()
        metadata = {key: value for key, value in (self.metadata or {}).items() if key not in _HIDDEN_KEYS}
        if metadata:
            return out | {"metadata": metadata}
        out.pop("metadata", None)
        return out

    def encode(self) -> bytes:
        """Return the file's bytes: 2-space JSON without a trailing newline (as observed)."""
        if not self.extra.keys() <= _TIMES:
            return json.dumps(self.to_json(), indent=2, ensure_ascii=False).encode()
        lines = [f'"{key}": {_indented(value)}' for key, value in self.to_json().items()]
        return f"{{\n  {_NEXT.join(lines)}\n}}".encode()  # the same, at a fifth of the cost


def parse_task(raw: bytes, stem: str) -> Task | None:
    """Return the task in a file of that stem; None where the file is not a task; `task_fault` says why.

    The stem is the id: a different id inside the file is ignored. Unknown keys go to `extra`.
    """
    try:
        data = _fields(raw)
        return Task(
            id=stem,
            subject=str(data["subject"]),
            description=str(data["description"]),
            status=TaskStatus(data["status"]),
            active_form=data.get("activeForm"),
            owner=data.get("owner") or None,
            blocks=tuple(str(i) for i in data["blocks"]),
            blocked_by=tuple(str(i) for i in data["blockedBy"]),
            metadata=data.get("metadata") if isinstance(data.get("metadata"), dict) else None,
            extra={key: value for key, value in data.items() if key not in _KNOWN_KEYS},
        )
    except (ValueError, RecursionError):
        return None


def task_fault(raw: bytes) -> str:
    """Return why these bytes are not a task, in words for a person; empty when they are one."""
    try:
        _fields(raw)
    except json.JSONDecodeError:
        return "it is not whole JSON" if raw.strip(b"\0 \n") else "it is empty"
    except (ValueError, RecursionError) as problem:
        return str(problem)
    return ""


def open_blockers(task: Task, tasks: Mapping[str, Task]) -> list[str]:
    """Return the ids that block this task: blockers that exist and are not finished, in numeric order."""
    waiting = [i for i in task.blocked_by if i in tasks and not tasks[i].is_finished]
    return sorted(waiting, key=lambda i: (len(i), i))


def _fields(raw: bytes) -> dict[str, Any]:
    """Return the object of a task file. Raises ValueError with the fault, RecursionError."""
    loaded: Any = json.loads(raw)
    if not isinstance(loaded, dict):
        raise ValueError("it is not a JSON object")
    data = cast("dict[str, Any]", loaded)
    if missing := [f"'{key}'" for key in _REQUIRED if key not in data]:
        raise ValueError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    if data["status"] not in tuple(TaskStatus):
        raise ValueError(f"'status' is {_excerpt(data['status'])}, not one of {', '.join(TaskStatus)}")
    for key in ("blocks", "blockedBy"):
        if not isinstance(data[key], list):
            raise ValueError(f"'{key}' is {_excerpt(data[key])}, not a list")
    if not isinstance(data.get("owner"), str | None):
        raise ValueError(f"'owner' is {_excerpt(data['owner'])}, not a name")
    return data


def _excerpt(value: Any) -> str:
    return json.dumps(value)[:40]


def _indented(value: Any) -> str:
    """Return the value as it is written one level deep: text on its line, other values with their own lines
    indented.
    """
    if isinstance(value, str) or not value:
        return _quoted(value)
    if isinstance(value, list):
        ids = cast("list[Any]", value)
        if all(isinstance(i, str) for i in ids):
            return f"[\n    {_DEEPER.join(map(_quoted, ids))}\n  ]"
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")


def _time_ms(value: Any) -> int:
    """Return a time of a task file, a number of ms or an ISO text, in ms since 1970; 0 for anything else."""
    if isinstance(value, str):
        return parse_iso_ms(value) or 0
    return int(value) if type(value) in {int, float} and 0 < value < _LATEST_MS else 0


def _names(metadata: Mapping[str, Any] | None, key: str) -> tuple[str, ...]:
    value: Any = (metadata or {}).get(key)
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(str(name) for name in cast("list[Any]", value))
    return ()


class IntegrationState(StrEnum):
    """The state of a completed task's commit on its way to the team's branch.

    A kill leaves `queued` or `checking`; the others are final.
    """

    QUEUED = "queued"
    CHECKING = "checking"
    MERGED = "merged"
    CONFLICT = "conflict"
    FAILED = "failed"
    RETURNED = "returned"
    """Its review did not approve it, so it was never in the queue."""


class TaskIntegration(Struct, frozen=True, omit_defaults=True):
    """The commit `tip` of a completed task, on a member's branch that began at `base`.

    `state` is `queued` until the commit is integrated or returned. A returned task is open again. `commit` is the
    commit of the team's branch that contains an integrated tip.
    """

    state: IntegrationState
    branch: str
    tip: str
    base: str
    commit: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the object in the task's metadata."""
        return to_builtins(self)


def parse_task_integration(value: object) -> TaskIntegration | None:
    """Return the value of a task's metadata; None for one that Teamwright did not write."""
    if not isinstance(value, Mapping):
        return None
    try:
        return convert(value, TaskIntegration)
    except ValidationError:
        return None


MAX_RETURNS = 3
"""Returns of one task by reviewers. After these the task belongs to the lead, which decides how to continue."""


class Reviewer(StrEnum):
    """The reviewer that a task requires, in ascending order: a teammate, the lead, a person."""

    MEMBER = "member"
    LEAD = "lead"
    HUMAN = "human"


class ReviewState(StrEnum):
    """The state of a review. A kill may leave any of them, and a resume continues with it."""

    WORKING = "working"
    WAITING = "waiting"
    APPROVED = "approved"
    RETURNED = "returned"


class ReviewNote(Struct, frozen=True, omit_defaults=True):
    """The review of one task. `begun` is the time at which its owner began it, in ms since 1970.

    `round` counts the submissions and `returns` the returned ones. `reviewer` is the member that is asked since
    `asked_at` (ms since 1970): a teammate, the lead or `user`; empty while none is chosen. `asked` are all that were
    asked in this round. `author` is the member that submitted the work, `work` its commit, when it is in a worktree.
    `by` answered, with `comment`.
    """

    state: ReviewState
    begun: int
    round: int = 0
    returns: int = 0
    author: str = ""
    reviewer: str = ""
    asked: tuple[str, ...] = ()
    asked_at: int = 0
    work: TaskIntegration | None = None
    by: str = ""
    comment: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the object in the task's metadata."""
        return to_builtins(self)


def parse_review_note(value: object) -> ReviewNote | None:
    """Return the value of a task's metadata; None for one that Teamwright did not write."""
    if not isinstance(value, Mapping):
        return None
    try:
        return convert(value, ReviewNote)
    except ValidationError:
        return None


def stricter_reviewer(reviewers: Iterable[Reviewer | None]) -> Reviewer | None:
    """Return the strictest of these requirements; None when there is none."""
    order = list(Reviewer)
    return max((one for one in reviewers if one is not None), key=order.index, default=None)
