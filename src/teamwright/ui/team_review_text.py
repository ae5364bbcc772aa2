"""A team's review as lines: the reports, changes, checks and cost of each member."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.edit_history.team_review import REVIEW_ACTIONS, MemberReview, TeamReview
from teamwright.protocol.ids import display_name
from teamwright.protocol.usage import Usage
from teamwright.team_records.snapshots import TaskView
from teamwright.ui.change_text import change_lines, line_counts
from teamwright.ui.terminal.styles import StyledLine

REPORT_LINES = 6
"""The number of lines of a report that the screen shows."""


MAX_FILES = 12
"""The number of changed files of a member that the screen lists; the rest is counted."""


def review_lines(review: TeamReview) -> Iterator[StyledLine]:
    """Yield the screen: for each member its report, files, tasks with their checks, and cost."""
    for member in review.members:
        yield from _member_lines(member)
        yield "", ""
    if not review.members:
        yield "", "No member has reported, changed a file or owned a task."


def key_lines() -> Iterator[str]:
    """Yield one line for each action with the way to type it."""
    for action in REVIEW_ACTIONS.values():
        typed = " ".join(part for part in (action.key, "NAME", action.text) if part)
        yield f"{typed:<22} {action.help}"


def member_diff(review: TeamReview, name: str) -> Iterator[StyledLine]:
    """Yield the diff of a member's files. Raises UnknownMember."""
    member = review.member(name)
    if not member.files:
        yield "", f"{member.name} changed no file that is recorded."
    for file in member.files:
        yield from change_lines(file)


def _member_lines(member: MemberReview) -> Iterator[StyledLine]:
    state = "accepted" if member.accepted else "open" if member.files or member.tasks else "no work to accept"
    money = str(Usage(usd=member.usd)).rpartition(", ")[2]
    calls = f"{member.model_calls} model call{'' if member.model_calls == 1 else 's'}"
    yield "bold", f"{member.name}  {state}  {calls}, {member.tokens:,} tokens, {money}"
    report = member.report.split("\n") if member.report else []
    yield from (("", f"  {line}") for line in report[:REPORT_LINES])
    if (left := len(report) - REPORT_LINES) > 0:
        yield "", f"  … {left} more lines"
    for file in member.files[:MAX_FILES]:
        note = f"  {file.since}" if file.since else ""
        yield "", f"  {file.path}  {line_counts(file)}{note}"
    if (left := len(member.files) - MAX_FILES) > 0:
        yield "", f"  … {left} more files"
    yield from (("", f"  #{task.id} {task.subject}: {_task_state(task)}") for task in member.tasks)


def _task_state(task: TaskView) -> str:
    if task.damaged:
        return "damaged"
    if (review := task.review) is not None:
        by = f", reviewed by {display_name(review.reviewer)}" if review.reviewer else ""
        return f"in review{by}, round {review.round}" + ": accept or return it" * review.is_for_person
    if task.open:
        return task.status
    if task.unverified:
        return f"completed, its check did not pass: {task.check}" if task.check else "completed, unverified"
    return f"completed, its check passed: {task.check}" if task.check else "completed, it has no check"
