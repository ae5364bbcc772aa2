"""The integration of finished work: the states of an entry, and the part of it that a task's metadata contains.

Depends on nothing. The queue is in `worktrees`, the branch that it moves is `teamwright/<team>/integration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins


class IntegrationState(StrEnum):
    """The state of an entry. A kill leaves `queued` or `checking`; the others are final."""

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
