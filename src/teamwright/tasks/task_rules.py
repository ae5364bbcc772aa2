"""Who may change what of a task: pure decisions on one task and its open blockers.

Below it: the words. The claim rules are the same on every path (idle member, `owner=`, `status=in_progress`).
Refuses to know files and locks; callers ask again under the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

from teamwright.protocol.errors import TaskRefused, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, parse_recipient
from teamwright.protocol.task import CHECK, CHECKED, DRAFT, Task, TaskStatus
from teamwright.protocol.values import dataclass

DELETED = "deleted"
"""The status that is only ever a wish: the file goes."""

RUNTIME_KEYS = frozenset({CHECKED, DRAFT})
"""Keys of a task's metadata that only the runtime writes."""

FindOpenBlockers: TypeAlias = Callable[[], Sequence[str]]
"""Gives the ids of the open blockers; called only when they matter."""


class TaskWishes(TypedDict, total=False):
    """What an update asks for; what is left out stays. `owner` may be empty: nobody. None in `metadata` deletes.

    `seen_from` is the directory that a check which it sets was decided on in. `ready` ends the draft of the task: idle
    members may claim it before the turn of its creator has ended.
    """

    subject: str
    description: str
    active_form: str
    owner: str
    status: str
    add_blocks: Sequence[str]
    add_blocked_by: Sequence[str]
    metadata: Mapping[str, Any]
    seen_from: Path
    ready: bool


class NewTask(TypedDict, total=False):
    """What a new task may have beside its texts. `seen_from`: where its check was decided on.

    `draft`: its creator has not finished describing it, so that idle members do not claim it yet.
    """

    active_form: str | None
    metadata: Mapping[str, Any] | None
    blocked_by: Sequence[str]
    owner: str
    draft: bool
    seen_from: Path


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. The lead may reassign; `tools` None means that what the actor can use is not known.

    On a list that several sessions share the name is `name@realm`, and so are the owners on disk.
    """

    name: str
    lead: bool = False
    tools: frozenset[str] | None = None

    @property
    def realm(self) -> str:
        """What tells namesakes of two sessions apart; empty on a list of one."""
        return self.name.partition("@")[2]


def is_owner(owner: str | None, name: str) -> bool:
    """Whether an owner as written on disk is this member: `name`, `name@team` or the lead's alias, in any case.

    Where both say of which team they are, that must be the same too.
    """
    if owner is None or _name_without_team(owner) != _name_without_team(name):
        return False
    one, other = owner.partition("@")[2], name.partition("@")[2]
    return not (one and other) or one == other


def with_realm(name: str, realm: str) -> str:
    """The name as it is on disk in a shared list: `name@realm`; a name that says where it belongs is kept."""
    return f"{name}@{realm}" if realm and name and "@" not in name else name


def not_found_error(id: str) -> TaskRefused:
    """There is no such task."""
    return TaskRefused("task_not_found", f"there is no task #{id}", do=["TaskList shows the numbers"])


def blocked_error(task: Task, waiting: Sequence[str]) -> TaskRefused:
    """The task waits for others."""
    ids = ", ".join(f"#{i}" for i in waiting)
    return TaskRefused("blocked", f"#{task.id} waits for {ids}", do=["complete what it waits for", "take another task"])


def already_claimed_error(task: Task) -> TaskRefused:
    """Somebody else has the task."""
    return TaskRefused(
        "already_claimed", f"#{task.id} belongs to {task.owner}", do=["take another task", f"write to {task.owner}"]
    )


def may_claim(task: Task, actor: Actor) -> bool:
    """Whether the actor may have this task: it is not reserved for others and needs no tool that is missing."""
    reserved = task.reserved_for
    if reserved and not any(is_owner(name, actor.name) for name in reserved):
        return False
    return actor.tools is None or actor.tools.issuperset(task.needs)


def apply_claim(task: Task, actor: Actor, waiting: FindOpenBlockers) -> Task:
    """The task in the actor's hands and in progress; unchanged when it is so already.

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
    return task.copy_with(
        owner=actor.name, status=TaskStatus.IN_PROGRESS, metadata=merge_metadata(task.metadata, {DRAFT: None})
    )


def apply_update(task: Task, wish: TaskWishes, actor: Actor, waiting: FindOpenBlockers) -> Task:
    """The task with owner, status and texts as wished; edges are not touched here. Raises TaskRefused, UsageError."""
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
        status = TaskStatus.PENDING  # nobody works on what nobody has
    return task.copy_with(owner=owner, status=status, **_texts(task, wish, actor))


def require_deletable(task: Task, actor: Actor) -> None:
    """Raise TaskRefused when another's open task would be deleted by somebody who is not the lead."""
    if task.status is not TaskStatus.COMPLETED and _belongs_to_another(task, actor):
        raise already_claimed_error(task)


def apply_release(task: Task, owner: str) -> Task:
    """The task handed back, if it is open and this owner's; else unchanged."""
    if task.is_internal or task.status is TaskStatus.COMPLETED or not is_owner(task.owner, owner):
        return task
    return task.copy_with(owner=None, status=TaskStatus.PENDING)


def changed_fields(before: Task, after: Task) -> tuple[str, ...]:
    """The names of what differs, as on disk, in the order that results show them."""
    pairs = (
        ("subject", before.subject, after.subject),
        ("description", before.description, after.description),
        ("activeForm", before.active_form, after.active_form),
        ("owner", before.owner, after.owner),
        ("metadata", *(merge_metadata(task.metadata, {DRAFT: None}) for task in (before, after))),
        ("status", before.status, after.status),
        ("blocks", before.blocks, after.blocks),
        ("blockedBy", before.blocked_by, after.blocked_by),
    )
    return tuple(name for name, old, new in pairs if old != new)


def change_word(before: Task, after: Task, by: str) -> str:
    """The one word for a change: completed, claimed, assigned, released or updated."""
    if after.status is TaskStatus.COMPLETED and before.status is not TaskStatus.COMPLETED:
        return "completed"
    if after.owner != before.owner:
        if after.owner is None:
            return "released"
        return "claimed" if is_owner(after.owner, by) else "assigned"
    return "updated"


def require_subject(subject: str) -> str:
    """A subject on one line. Raises UsageError when nothing is left."""
    line = " ".join(subject.split())
    if not line:
        raise UsageError("usage", "a task needs a subject", note="nothing was changed")
    return line


def require_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Check the keys of `metadata` that mean something to us. Raises UsageError for a value of another kind."""
    for key, value in (metadata or {}).items():
        if key == CHECK and not isinstance(value, str | None):
            raise UsageError(
                "usage",
                f"metadata.check must be a command as text, not {value!r:.60}",
                do=['{"check": "make test"}'],
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


def merge_metadata(metadata: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any] | None:
    """The metadata with more of it; a None deletes its key; nothing left is None."""
    both = {**(metadata or {}), **more}
    return {key: value for key, value in both.items() if key not in more or value is not None} or None


def _name_without_team(name: str) -> str:
    bare = name.split("@", 1)[0].lower()
    return LEAD if bare == LEAD_ALIAS else bare


_AT_WORK = (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED)
"""What a member asks for that means to do the work itself."""


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
    if not (wanted := with_realm(wish["owner"].strip(), realm)):
        return None
    if is_owner(task.owner, wanted):
        return task.owner
    return with_realm(parse_recipient(wanted, None), realm)


def _is_taken(task: Task, actor: Actor, owner: str | None, wish: TaskWishes) -> bool:
    """A member takes a free task by naming itself, starting it or completing it; a lead takes nothing by that."""
    if actor.lead or task.owner is not None:
        return False
    if owner is not None:
        return is_owner(owner, actor.name)
    completes = wish.get("status") == TaskStatus.COMPLETED and task.status is not TaskStatus.COMPLETED
    return completes or wish.get("status") == TaskStatus.IN_PROGRESS


def _refuse_other_member(task: Task, actor: Actor, owner: str | None, status: TaskStatus, *, works: bool) -> None:
    """`works`: starts or completes it, perhaps as another did meanwhile, and must hear of that."""
    same_as_before = owner == task.owner and status is task.status and not works
    if same_as_before or not _belongs_to_another(task, actor):
        return
    if task.status is not TaskStatus.COMPLETED:
        raise already_claimed_error(task)
    if owner != task.owner or status is not TaskStatus.PENDING:  # anybody may reopen what was found wanting
        raise TaskRefused("already_resolved", f"#{task.id} was completed by {task.owner}", do=["take another task"])


def _refuse_unsuitable(task: Task, actor: Actor) -> None:
    if may_claim(task, actor):
        return
    names = ", ".join(task.reserved_for)
    what = f"is reserved for {names}" if names else f"needs {', '.join(task.needs)}, which {actor.name} does not have"
    raise TaskRefused("reserved", f"#{task.id} {what}", do=["take another task"])


def _texts(task: Task, wish: TaskWishes, actor: Actor) -> dict[str, Any]:
    """What the wish says of texts and metadata, as fields of the task. What passed a check only the runtime notes."""
    said: dict[str, Any] = {}
    if "subject" in wish:
        said["subject"] = require_subject(wish["subject"])
    if "description" in wish:
        said["description"] = wish["description"]
    if "active_form" in wish:
        said["active_form"] = wish["active_form"]
    if more := {key: value for key, value in wish.get("metadata", {}).items() if key not in RUNTIME_KEYS}:
        if task.check and not actor.lead and CHECK in more and more[CHECK] != (task.metadata or {}).get(CHECK):
            raise TaskRefused(
                "check_kept", f"#{task.id} has a check, which only the lead changes", do=["ask the lead to change it"]
            )
        said["metadata"] = merge_metadata(task.metadata, more)
    return said
