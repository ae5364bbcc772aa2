"""The paths that a task declares it will change, and the tasks that may not be worked on at once because of them.

A set is a list of path patterns below the repository, in the syntax of a role's `writes` in team.toml. Depends on task
values. The verdict on a write outside the set is in `permissions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.ids import display_name
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.task_rules import Actor, is_owner

_SHOWN = 3
"""Paths of an overlap that a message names."""


class WriteConflict(Struct, frozen=True):
    """A task in progress whose set overlaps. `paths` are the patterns of that task which do.

    `blocks`: both work in the shared checkout, so the other task waits.
    """

    task: str
    owner: str
    paths: tuple[str, ...]
    blocks: bool

    def __str__(self) -> str:
        more = f" and {len(self.paths) - _SHOWN} more" if len(self.paths) > _SHOWN else ""
        return f"#{self.task} ({display_name(self.owner)}: {', '.join(self.paths[:_SHOWN])}{more})"


def overlaps(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the patterns of `other` that may match a path which a pattern of `one` matches too.

    A pattern includes all paths below its matches, and one without `/` matches at any depth. Case is ignored. Links
    are not followed.
    """
    return [theirs for theirs in other if any(_patterns_meet(_segments(ours), _segments(theirs)) for ours in one)]


def write_conflicts(task: Task, tasks: Iterable[Task]) -> list[WriteConflict]:
    """Return the tasks in progress of other owners whose sets overlap with this task's. Nothing for a finished one."""
    mine = task.writes
    if not mine or task.status is TaskStatus.COMPLETED:
        return []
    found: list[WriteConflict] = []
    for other in tasks:
        if other.id == task.id or not is_at_work(other) or is_owner(task.owner, other.owner or ""):
            continue
        if paths := overlaps(mine, other.writes):
            blocks = not task.in_worktree and not other.in_worktree
            found.append(WriteConflict(other.id, other.owner or "", tuple(paths), blocks))
    return found


def conflict_notes(task: Task, tasks: Iterable[Task]) -> list[str]:
    """Return texts about the tasks at work whose sets overlap: the task waits for them, or both are worked on."""
    waits = task.status is TaskStatus.PENDING
    return [f"{'waits for' if waits and one.blocks else 'overlaps'} {one}" for one in write_conflicts(task, tasks)]


def blocking_conflicts(task: Task, tasks: Iterable[Task]) -> list[WriteConflict]:
    """Return the conflicts for which the task waits, unless its owner works in a worktree."""
    return [conflict for conflict in write_conflicts(task, tasks) if conflict.blocks]


def must_wait(task: Task, actor: Actor, tasks: Iterable[Task]) -> bool:
    """Return True when an overlapping task at work keeps this actor from claiming the task."""
    if not task.writes or actor.in_worktree:
        return False
    return bool(blocking_conflicts(task.copy_with(owner=actor.name), tasks))


def is_at_work(task: Task) -> bool:
    """Return True for a task in progress that has a set."""
    return task.status is TaskStatus.IN_PROGRESS and bool(task.writes) and not task.is_internal


def begins_writing(before: Task, after: Task) -> bool:
    """Return True for a change after which the set is at work in the shared checkout, and was not before."""
    if not is_at_work(after) or after.in_worktree:
        return False
    return not is_at_work(before) or before.in_worktree or before.writes != after.writes


def refuse_overlap(before: Task, after: Task, find_tasks: Callable[[], Iterable[Task]]) -> None:
    """Refuse a change that begins a task while an overlapping one is at work in the same checkout.

    `find_tasks` returns the tasks in progress; it is called inside the store's critical section, and only when they
    matter. Raises TaskRefused (`writes_overlap`).
    """
    if not begins_writing(before, after):
        return
    if waits := blocking_conflicts(after, find_tasks()):
        raise TaskRefused(
            "writes_overlap",
            f"#{after.id} waits for {', '.join(map(str, waits))}: both change the same files of one checkout",
            do=["take another task", "start it when that task is completed"],
        )


def _segments(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.lower().split("/") if part not in {"", "."})
    return parts if "/" in pattern.rstrip("/") else ("**", *parts)


@lru_cache(maxsize=4096)
def _patterns_meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    if not one or not other:
        return True  # a matched directory includes everything below it
    if one[0] == "**":
        return _patterns_meet(one[1:], other) or _patterns_meet(one, other[1:])
    if other[0] == "**":
        return _patterns_meet(other, one)
    return _names_meet(one[0], other[0]) and _patterns_meet(one[1:], other[1:])


@lru_cache(maxsize=4096)
def _names_meet(one: str, other: str) -> bool:
    """Return True when one name may match both patterns, with `*` and `?`."""
    reached = {(0, 0)}
    seen = set[tuple[int, int]]()
    while reached:
        at, to = place = reached.pop()
        if place == (len(one), len(other)):
            return True
        seen.add(place)
        ours = one[at : at + 1]
        theirs = other[to : to + 1]
        steps = {(at + 1, to)} if ours == "*" else set[tuple[int, int]]()
        steps |= {(at, to + 1)} if theirs == "*" else set[tuple[int, int]]()
        if ours and theirs:
            if ours == "*" or theirs == "*":
                steps |= {(at, to + 1), (at + 1, to)}
            elif "?" in (ours, theirs) or ours == theirs:
                steps.add((at + 1, to + 1))
        reached |= steps - seen
    return False
