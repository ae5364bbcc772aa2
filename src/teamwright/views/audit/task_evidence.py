"""Evidence about tasks: whether each was completed in order and by one owner.

The files have the present status, the log the changes. A difference that a lost line of the log explains is no problem.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import StorageError
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.task_file import DamagedTaskFile, list_numbers, read_task
from teamwright.tasks.task_rules import is_owner
from teamwright.views.audit.log_evidence import LogEvidence, LoggedTaskChange
from teamwright.views.audit.team_location import TeamLocation

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
    tasks, damaged = _read(place)
    history = _TaskHistory(logs, place)
    whole = [task for task in tasks.values() if not task.is_internal]
    done = [task for task in whole if task.status is TaskStatus.COMPLETED]
    twice = history.twice | {task.id for task in done if history.says_another(task)}
    return TaskEvidence(
        done=len(done),
        open=len(whole) - len(done),
        twice=_sorted(twice),
        orphaned=_sorted({task.id for task in whole if _is_orphan(place, task)}),
        out_of_order=tuple(sorted(history.out_of_order(tasks), key=lambda pair: (_number(pair[0]), _number(pair[1])))),
        reused=_sorted(history.reused),
        doubled=_of_one_call(whole),
        damaged=tuple(damaged),
    )


def _read(place: TeamLocation) -> tuple[dict[str, Task], list[str]]:
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
        elif found is not None and (task := _of_team(found.task, place)) is not None:
            tasks[task.id] = task
    return tasks, damaged


def _of_team(task: Task, place: TeamLocation) -> Task | None:
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


def _of_one_call(tasks: list[Task]) -> tuple[tuple[str, ...], ...]:
    tasks_of_call: defaultdict[str, list[str]] = defaultdict(list)
    for task in tasks:
        call = (task.metadata or {}).get(CALL)
        if call:
            tasks_of_call[call if isinstance(call, str) else json.dumps(call)].append(task.id)
    return tuple(tuple(ids) for ids in tasks_of_call.values() if len(ids) > 1)


def _sorted(ids: set[str]) -> tuple[str, ...]:
    return tuple(sorted(ids, key=_number))


def _number(id: str) -> tuple[int, str]:
    return (len(id), id)
