"""The review of a task's finished work: who reviews, the states, and the note of it in the task's metadata.

Depends on the integration, whose commit waits for the approval. The rules are in `tasks`, the messages in `teams`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

from teamwright.protocol.integration import TaskIntegration

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
