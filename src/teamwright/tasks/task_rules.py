"""Rules for changes of a task: functions of one task, its actor and its open blockers.

The claim rules are the same for an idle member, `owner=` and `status=in_progress`. Callers apply the rules again under
the lock. The metadata keys that Teamwright defines are checked and merged here; keys of other programs are kept unread.
An edge (blocker, blocked) of the graph of tasks is stored on both sides, in two files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import TaskRefused, UsageError
from teamwright.protocol.events import TaskInfo
from teamwright.protocol.field_docs import show_fields
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, display_name, now_ms, parse_recipient, task_id
from teamwright.protocol.task import (
    CHECK,
    CHECKED,
    DRAFT,
    INTEGRATION,
    REVIEW,
    REVIEWED,
    WORKTREE,
    WRITES,
    Reviewer,
    Task,
    TaskStatus,
    stricter_reviewer,
)

DELETED = "deleted"
"""The status that requests deletion. No file has it."""

USER = "user"
"""The name under which a person or their program changes tasks."""

RUNTIME_KEYS = frozenset({CHECKED, DRAFT, INTEGRATION, REVIEWED, WORKTREE})
"""Metadata keys that only the runtime writes."""

_NOTES = RUNTIME_KEYS - {CHECKED}
"""The keys among them that are no change for the one who made the call."""

_AT_WORK = (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED)
"""The statuses that a member sets when it does the work."""

MAX_PATTERNS = 100
"""The most path patterns of one task."""

FindOpenBlockers: TypeAlias = Callable[[], Sequence[str]]
"""Returns the ids of the open blockers. It is called only when they matter."""


class TaskWishes(TypedDict, total=False):
    """The fields of an update; omitted ones do not change."""

    subject: str
    """The title, one line."""
    description: str
    """The work to be done."""
    active_form: str
    """The title while a member works on it, such as *Writing the tests*."""
    owner: str
    """The name of the member that does the task; an empty text removes the owner."""
    status: str
    """pending, in_progress, completed or deleted."""
    add_blocks: Sequence[str]
    """Numbers of tasks that this one blocks, in addition to those that it blocks now."""
    add_blocked_by: Sequence[str]
    """Numbers of tasks that block this one, in addition to those that block it now."""
    metadata: Mapping[str, Any]
    """Keys to set, such as `for`, `needs`, `check`; None deletes a key."""
    writes: Sequence[str]
    """Path patterns below the repository that the task changes."""
    review: str
    """The reviewer whose approval a completion needs: member, lead or human."""
    seen_from: Path
    """The directory in which the verdict on a new check was made; set by the runtime."""
    ready: bool
    """True ends the draft: idle members may claim the task before the turn of its creator has ended."""


show_fields(TaskWishes)


class NewTask(TypedDict, total=False):
    """The fields of a new task besides its texts. `seen_from` is the directory of the verdict on its check.

    `draft`: its creator has not finished describing it, so idle members do not claim it yet.
    """

    active_form: str | None
    metadata: Mapping[str, Any] | None
    blocked_by: Sequence[str]
    owner: str
    draft: bool
    seen_from: Path


class Actor(Struct, frozen=True):
    """The member that acts. The lead may reassign; `tools` None means that its tools are not known.

    `in_worktree`: it works in a worktree, so its changes meet those of others only when they are merged.

    On a list that several sessions share, the name is `name@realm`, like the owners on disk.
    """

    name: str
    lead: bool = False
    tools: frozenset[str] | None = None
    in_worktree: bool = False

    @property
    def is_user(self) -> bool:
        """True for a person or their program, who may lower the requirements of a task."""
        return self.name.partition("@")[0] == USER

    @property
    def realm(self) -> str:
        """The part that distinguishes equal names of two sessions; empty on the list of one session."""
        return self.name.partition("@")[2]


def may_claim(task: Task, actor: Actor) -> bool:
    """Return True when the actor may own this task: it is not reserved for others and needs no tool that is missing."""
    reserved = task.reserved_for
    if reserved and not any(is_owner(name, actor.name) for name in reserved):
        return False
    return actor.tools is None or actor.tools.issuperset(task.needs)


def apply_claim(task: Task, actor: Actor, waiting: FindOpenBlockers) -> Task:
    """Return the task in progress with the actor as owner; unchanged when it is so already.

    Raises TaskRefused: `already_resolved already_claimed reserved blocked`.
    """
    if task.status is TaskStatus.COMPLETED:
        raise TaskRefused("already_resolved", f"#{task.id} is completed already", do=["take another task"])
    if task.owner is not None and not is_owner(task.owner, actor.name):
        raise already_claimed_error(task)
    if task.owner is not None and task.status is TaskStatus.IN_PROGRESS:
        return task
    if task.owner is None:
        _refuse_unsuitable(task, actor)
    if ids := waiting():
        raise blocked_error(task, ids)
    after = task.copy_with(
        owner=actor.name, status=TaskStatus.IN_PROGRESS, metadata=merge_metadata(task.metadata, {DRAFT: None})
    )
    return note_start(task, after, in_worktree=actor.in_worktree)


def note_start(before: Task, after: Task, *, in_worktree: bool) -> Task:
    """Return a changed task with the notes of its start: the place of its owner, and the time for its review.

    `in_worktree`: the owner of a task in progress works in a worktree. Only a task with `writes` has that note.
    """
    more: dict[str, Any] = {}
    inside = in_worktree and after.status is TaskStatus.IN_PROGRESS and bool(after.writes)
    if inside != after.in_worktree and after.status is not TaskStatus.COMPLETED:  # it may be opened again
        more[WORKTREE] = inside or None
    starts = after.status is TaskStatus.IN_PROGRESS and before.status is TaskStatus.PENDING
    if starts and (note := after.review_note) is not None and not note.round:
        more[REVIEWED] = replace(note, begun=now_ms()).to_json()
    return after.copy_with(metadata=merge_metadata(after.metadata, more)) if more else after


def apply_update(task: Task, wish: TaskWishes, actor: Actor, waiting: FindOpenBlockers) -> Task:
    """Return the task with the requested owner, status and texts, without edges. Raises TaskRefused, UsageError."""
    status = _status(wish, task)
    owner = _owner(wish, task, actor.realm)
    takes = _is_taken(task, actor, owner, wish)
    if takes and "owner" not in wish:
        owner = actor.name
    _refuse_other_member(task, actor, owner, status, works=wish.get("status") in _AT_WORK)
    if takes and task.status is TaskStatus.COMPLETED:
        raise TaskRefused("already_resolved", f"#{task.id} is completed already", do=["take another task"])
    if not actor.lead and owner and not is_owner(task.owner, owner):
        _refuse_unsuitable(task, actor if is_owner(owner, actor.name) else Actor(owner))
    moves_on = status is not TaskStatus.PENDING and status is not task.status
    if (takes or moves_on) and (ids := waiting()):
        raise blocked_error(task, ids)
    if owner is None and "owner" in wish and "status" not in wish and status is TaskStatus.IN_PROGRESS:
        status = TaskStatus.PENDING  # a task without an owner is not in progress
    return task.copy_with(owner=owner, status=status, **_texts(task, wish, actor))


def require_deletable(task: Task, actor: Actor) -> None:
    """Raise TaskRefused when a member other than the lead deletes an open task of another member."""
    if task.status is not TaskStatus.COMPLETED and _belongs_to_another(task, actor):
        raise already_claimed_error(task)


def apply_release(task: Task, owner: str) -> Task:
    """Return the task released, if it is open and this owner's; otherwise unchanged. One in review keeps its author."""
    if task.is_internal or task.status is TaskStatus.COMPLETED or task.in_review or not is_owner(task.owner, owner):
        return task
    return note_start(task, task.copy_with(owner=None, status=TaskStatus.PENDING), in_worktree=False)


def changed_fields(before: Task, after: Task) -> tuple[str, ...]:
    """Return the names of the fields that differ, as on disk, in the order of results."""
    pairs = (
        ("subject", before.subject, after.subject),
        ("description", before.description, after.description),
        ("activeForm", before.active_form, after.active_form),
        ("owner", before.owner, after.owner),
        ("metadata", *(merge_metadata(task.metadata, dict.fromkeys(_NOTES)) for task in (before, after))),
        ("status", before.status, after.status),
        ("blocks", before.blocks, after.blocks),
        ("blockedBy", before.blocked_by, after.blocked_by),
    )
    return tuple(name for name, old, new in pairs if old != new)


def change_word(before: Task, after: Task, by: str) -> str:
    """Return the word for a change: completed, claimed, assigned, released or updated."""
    if after.status is TaskStatus.COMPLETED and before.status is not TaskStatus.COMPLETED:
        return "completed"
    if after.owner != before.owner:
        if after.owner is None:
            return "released"
        return "claimed" if is_owner(after.owner, by) else "assigned"
    return "updated"


def may_free_task(after: Task | None) -> bool:
    """Return True when a changed or deleted task may be free now, or one that waited for it."""
    if after is None:
        return True
    if after.status is TaskStatus.COMPLETED:
        return bool(after.blocks)
    return after.status is TaskStatus.PENDING and after.owner is None


def requested_edges(id: str, wish: TaskWishes) -> list[tuple[str, str]]:
    """Return the edges that an update adds, each a blocker and the task that waits for it. Raises InvalidName."""
    after = [(id, task_id(i)) for i in wish.get("add_blocks", ())]
    before = [(task_id(i), id) for i in wish.get("add_blocked_by", ())]
    return [*before, *after]


def is_owner(owner: str | None, name: str) -> bool:
    """Return True when an owner on disk is this member: `name`, `name@team` or the lead's alias, in any case.

    When both name a team, the teams must be equal too.
    """
    if owner is None or _name_without_team(owner) != _name_without_team(name):
        return False
    one = owner.partition("@")[2]
    other = name.partition("@")[2]
    return not (one and other) or one == other


def with_realm(name: str, realm: str) -> str:
    """Return the name as on disk in a shared list: `name@realm`. A name with a realm is kept."""
    return f"{name}@{realm}" if realm and name and "@" not in name else name


def require_subject(subject: str) -> str:
    """Return the subject as one line. Raises UsageError when it is empty."""
    line = " ".join(subject.split())
    if not line:
        raise UsageError("usage", "a task needs a subject", note="nothing was changed")
    return line


def task_info(task: Task, *, deleted: bool = False) -> TaskInfo:
    """Return a task in the form of events."""
    return TaskInfo(
        id=task.id,
        subject=task.subject,
        status=DELETED if deleted else str(task.status),
        owner=task.owner,
        blocked_by=task.blocked_by,
        budget=task.budget,
        integration=noted.state if (noted := task.integration) is not None else None,
        writes=task.writes,
        review=note.state if (note := task.review_note) is not None else None,
        reviewer=note.reviewer if note is not None and task.in_review else "",
    )


def not_found_error(id: str) -> TaskRefused:
    """Return the error for a task that does not exist."""
    return TaskRefused("task_not_found", f"there is no task #{id}", do=["TaskList shows the numbers"])


def blocked_error(task: Task, waiting: Sequence[str]) -> TaskRefused:
    """Return the error for a blocked task."""
    ids = ", ".join(f"#{i}" for i in waiting)
    return TaskRefused("blocked", f"#{task.id} waits for {ids}", do=["complete what it waits for", "take another task"])


def already_claimed_error(task: Task) -> TaskRefused:
    """Return the error for a task that another member owns."""
    owner = display_name(task.owner or "")
    return TaskRefused(
        "already_claimed", f"#{task.id} belongs to {owner}", do=["take another task", f"write to {owner}"]
    )


def still_draft_error(task: Task) -> TaskRefused:
    """Return the error for a task that its creator has not finished describing."""
    return TaskRefused("reserved", f"#{task.id} is still being described", do=["take another task"])


def _name_without_team(name: str) -> str:
    bare = name.split("@", 1)[0].lower()
    return LEAD if bare == LEAD_ALIAS else bare


def _belongs_to_another(task: Task, actor: Actor) -> bool:
    return task.owner is not None and not actor.lead and not is_owner(task.owner, actor.name)


def _status(wish: TaskWishes, task: Task) -> TaskStatus:
    word = wish.get("status")
    if word is None:
        return task.status
    try:
        return TaskStatus(word)
    except ValueError:
        raise UsageError(
            "usage",
            f"{word!r} is not a task's status",
            do=["use pending, in_progress, completed or deleted"],
            note="nothing was changed",
        ) from None


def _owner(wish: TaskWishes, task: Task, realm: str) -> str | None:
    if "owner" not in wish:
        return task.owner
    if not (owner := with_realm(wish["owner"].strip(), realm)):
        return None
    if is_owner(task.owner, owner):
        return task.owner
    return with_realm(parse_recipient(owner, None), realm)


def _is_taken(task: Task, actor: Actor, owner: str | None, wish: TaskWishes) -> bool:
    """Return True when a member claims a free task by naming itself, starting it or completing it. A lead does not."""
    if actor.lead or task.owner is not None:
        return False
    if owner is not None:
        return is_owner(owner, actor.name)
    completes = wish.get("status") == TaskStatus.COMPLETED and task.status is not TaskStatus.COMPLETED
    return completes or wish.get("status") == TaskStatus.IN_PROGRESS


def _refuse_other_member(task: Task, actor: Actor, owner: str | None, status: TaskStatus, *, works: bool) -> None:
    """Refuse an update of a task of another member. `works`: the update starts or completes the task."""
    same_as_before = owner == task.owner and status is task.status and not works
    if same_as_before or not _belongs_to_another(task, actor):
        return
    if task.status is not TaskStatus.COMPLETED:
        raise already_claimed_error(task)
    if owner != task.owner or status is not TaskStatus.PENDING:  # any member may reopen a task with faults
        raise TaskRefused(
            "already_resolved",
            f"#{task.id} was completed by {display_name(task.owner or '')}",
            do=["take another task"],
        )


def _refuse_unsuitable(task: Task, actor: Actor) -> None:
    if may_claim(task, actor):
        return
    names = ", ".join(task.reserved_for)
    what = f"is reserved for {names}" if names else f"needs {', '.join(task.needs)}, which {actor.name} does not have"
    raise TaskRefused("reserved", f"#{task.id} {what}", do=["take another task"])


def _texts(task: Task, wish: TaskWishes, actor: Actor) -> dict[str, Any]:
    """Return the texts and metadata of the update as fields of the task. Only the runtime notes a passed check."""
    fields: dict[str, Any] = {}
    if "subject" in wish:
        fields["subject"] = require_subject(wish["subject"])
    if "description" in wish:
        fields["description"] = wish["description"]
    if "active_form" in wish:
        fields["active_form"] = wish["active_form"]
    if more := {key: value for key, value in requested_metadata(wish).items() if key not in RUNTIME_KEYS}:
        if REVIEW in more and not actor.is_user:
            more[REVIEW] = _raised_review(task, more[REVIEW])
        if task.check and not actor.lead and CHECK in more and more[CHECK] != (task.metadata or {}).get(CHECK):
            raise TaskRefused(
                "check_kept", f"#{task.id} has a check, which only the lead changes", do=["ask the lead to change it"]
            )
        fields["metadata"] = merge_metadata(task.metadata, more)
    return fields


def _raised_review(task: Task, requirement: str | None) -> str:
    """Return the requirement after a change by an agent, which only raises it. Raises TaskRefused (`review_kept`)."""
    new = Reviewer(requirement) if requirement is not None else None
    strictest = stricter_reviewer((task.review, new))
    if strictest is None or new is not strictest:
        raise TaskRefused(
            "review_kept",
            f"#{task.id} needs a review by {task.review}, which only the user lowers",
            do=["ask the user"],
        )
    return strictest


def merge_metadata(metadata: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the merged metadata. A None deletes its key; empty metadata is None."""
    both = {**(metadata or {}), **more}
    return {key: value for key, value in both.items() if key not in more or value is not None} or None


def requested_metadata(wish: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a change or of a new task, with the keys that have a field of their own."""
    metadata = dict(wish.get("metadata") or {})
    if "writes" in wish:
        metadata[WRITES] = list(wish["writes"]) or None
    if "review" in wish:
        metadata[REVIEW] = wish["review"] or None
    return metadata


def require_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Check the known keys of `metadata`. Raises UsageError for a value of another type."""
    for key, value in (metadata or {}).items():
        if key == CHECK and not isinstance(value, str | None):
            raise UsageError(
                "usage",
                f"metadata.check must be a command as text, not {value!r:.60}",
                do=['{"check": "make test"}'],
                note="nothing was changed",
            )
        if key == WRITES:
            require_write_set(value)
        if key == REVIEW and value is not None and value not in tuple(Reviewer):
            raise UsageError(
                "usage",
                f"review must be {', '.join(Reviewer)}, not {value!r:.60}",
                note="nothing was changed",
            )
        if key in {"for", "needs"} and not _is_names(value):
            raise UsageError(
                "usage",
                f"metadata.{key} must be a list of names, not {value!r:.60}",
                do=[f'{{"{key}": ["ada"]}}' if key == "for" else '{"needs": ["Bash"]}'],
                note="nothing was changed",
            )


def _is_names(value: object) -> bool:
    """Return True for a name, a list of names, or nothing."""
    return isinstance(value, str | None) or (
        isinstance(value, list | tuple) and all(isinstance(one, str) for one in cast("Sequence[object]", value))
    )


def is_path_pattern(value: object) -> bool:
    """Return True for a pattern below the repository: a text without a leading `/` or `~` and without `..`."""
    if not isinstance(value, str) or not value.strip("/. ") or "\n" in value or "\0" in value:
        return False
    return not value.startswith(("/", "~")) and ".." not in value.split("/")


def require_write_set(value: object) -> None:
    """Check the value of `metadata.writes`: a list of patterns, or None. Raises UsageError."""
    patterns = list(cast("list[object]", value)) if isinstance(value, list | tuple) else [None]
    if value is not None and not (len(patterns) <= MAX_PATTERNS and all(map(is_path_pattern, patterns))):
        raise UsageError(
            "usage",
            f"writes must be at most {MAX_PATTERNS} path patterns below the repository, not {value!r:.60}",
            do=['["src/parser/**", "docs/parser.md"]'],
            note="nothing was changed",
        )


Edge: TypeAlias = tuple[str, str]
"""(blocker, blocked), both ids of tasks."""


def id_sort_key(id: str) -> tuple[int, str]:
    """Return the sort key for numeric order, also for ids of other programs that are not numbers."""
    return len(id), id


def sort_ids(ids: Iterable[str]) -> list[str]:
    """Return the ids in numeric order, without duplicates."""
    return sorted(set(ids), key=id_sort_key)


def add_ids(ids: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    """Return the ids with new ones appended, without duplicates. The order of the old ones is kept."""
    return tuple(dict.fromkeys((*ids, *more)))


def remove_id(ids: Sequence[str], gone: str) -> tuple[str, ...]:
    """Return the ids without this one."""
    return tuple(i for i in ids if i != gone)


def find_path(start: str, goal: str, blocks: Callable[[str], Iterable[str]]) -> list[str] | None:
    """Return the shortest path from one task to another along `blocks`, both ends included, or None."""
    came_from: dict[str, str] = {start: start}
    open_ends = deque([start])
    while open_ends:
        here = open_ends.popleft()
        if here == goal:
            way = [goal]
            while came_from[way[-1]] != way[-1]:
                way.append(came_from[way[-1]])
            return way[::-1]
        for there in sort_ids(blocks(here)):
            if there not in came_from:
                came_from[there] = here
                open_ends.append(there)
    return None


def refuse_cycles(edges: Iterable[Edge], blocks: Callable[[str], Iterable[str]]) -> None:
    """Raise TaskRefused (`self_edge`, `cycle`) if these edges, added in order, would form a cycle."""
    new: dict[str, list[str]] = {}

    def blocks_with_new(id: str) -> list[str]:
        return [*blocks(id), *new.get(id, ())]

    for blocker, blocked in edges:
        if blocker == blocked:
            raise TaskRefused("self_edge", f"#{blocker} cannot wait for itself")
        way = find_path(blocked, blocker, blocks_with_new)
        if way:
            cycle_text = " → ".join(f"#{i}" for i in [*way, blocked])
            raise TaskRefused(
                "cycle", f"these tasks would wait for each other: {cycle_text}", do=["leave one of them out"]
            )
        new.setdefault(blocker, []).append(blocked)
