"""Queries of the edit history for all user interfaces: the changes of a session, and undo of a prompt's edits.

The session runs in this process, or in no process. Depends on the agents' activity and the notices to the lead.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.agent.transcript import header_tag_key, queued_line, read_header
from teamwright.edit_history.edit_journal_reader import read_journal
from teamwright.edit_history.history_location import (
    HistoryLocation,
    agents_of_member,
    history_of_session,
    make_undo_request,
    running_members,
    subagent_owners,
)
from teamwright.edit_history.removed_worktrees import RemovedWorktrees
from teamwright.edit_history.session_diff import FileChange, count_reverted, file_changes, newest_edit_of_call
from teamwright.edit_history.undo import UndoPlan, UndoResult, apply_undo, require_plan
from teamwright.protocol.errors import CannotStart, TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD_ALIAS
from teamwright.protocol.runtime_tags import RuntimeTags
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.json_lines import Journal
from teamwright.views.log import event_name

if TYPE_CHECKING:
    from teamwright.session.session import Session

BY_UNDO = "the user's undo"
"""The author that an agent with an outdated reading of the file is shown after an undo."""


class SessionChanges(Struct, frozen=True):
    """The changes of a session. `again` counts files that have their first content again; `cut_off` is the time of
    an interrupted undo; `damaged` counts lines of the journal that cannot be read.
    """

    place: HistoryLocation
    member: str
    files: Iterator[FileChange]
    again: int = 0
    cut_off: str = ""
    damaged: int = 0
    against: str = ""
    """The branch and commit with which a member's worktree is compared; empty for recorded edits."""


def session_changes(place: HistoryLocation, member: str | None = None) -> SessionChanges:
    """Return the changes since the session began: of all agents, or of a member and its sub-agents.

    The changes of a member with a worktree are those against the integration branch. The files are an iterator. Raises
    UnknownMember, StorageError, WorktreeRefused, CannotStart.
    """
    edits = read_journal(place.history)
    owners = subagent_owners(place)
    if member and place.home is not None and place.home.worktrees.is_dir():
        from teamwright.edit_history.worktree_diff import WorktreeDiff, find_worktree  # not loaded without worktrees

        if (record := find_worktree(place.home, place.session, event_name(member))) is not None:
            diff = WorktreeDiff.open(place.home, record)
            files = diff.files(lambda path: len(edits.changes.get(path, ())))
            return SessionChanges(place, record.member, files, damaged=edits.damaged, against=diff.against)
    by = agents_of_member(place, edits, member, owners)
    cut_off = edits.cut_off.at if edits.cut_off is not None else ""
    files = RemovedWorktrees(place.home, place.cwd).explain_changes(
        file_changes(edits, place.history, place.cwd, by, owners)
    )
    return SessionChanges(place, member or "", files, 0 if by else count_reverted(edits), cut_off, edits.damaged)


def edit_of_call(place: HistoryLocation, call: str) -> FileChange:
    """Return the edit of one tool call, `c7` or `7`. Raises UsageError when it made none."""
    call_id = f"c{call.strip().lower().removeprefix('c')}"
    edits = read_journal(place.history)
    found = newest_edit_of_call(edits, place.history, place.cwd, call_id)
    if found is None:
        calls = [change.call for lines in edits.changes.values() for change in lines if change.call]
        known = ", ".join(sorted(set(calls), key=lambda one: (len(one), one))[-8:])
        raise UsageError("usage", f"{call_id[:40]} changed no file", looked_at=[("edits", known or "none")])
    return found


async def undo_in_session(
    session: Session, member: str | None, left: tuple[str, ...], *, force: bool, agreed: UndoPlan | None = None
) -> UndoResult:
    """Undo the last prompt's edits in a session of this process; the lead is notified with its next turn.

    `agreed` is the plan that the person confirmed. Raises TeamwrightError (`undo-refused`) when there is nothing to
    undo or the plan differs from `agreed`, and while an agent works unless `force`; UnknownMember, UsageError,
    StorageError.
    """
    place = history_of_session(session)
    plan = undo_here_ahead(session, member, left, force=force)
    require_agreed(plan, agreed)
    result = await apply_undo(
        place.history, place.cwd, plan, lambda id, text: session.lead.save_note(text, f"undo-{id}")
    )
    for step in plan.steps:
        session.agent_factory.edits.by_path[step.path] = (BY_UNDO, step.after or "")
    return result


def undo_here_ahead(session: Session, member: str | None, left: tuple[str, ...], *, force: bool) -> UndoPlan:
    """Return the plan of an undo in this session, without changes. Raises as `undo_in_session`."""
    plan = _planned(history_of_session(session), member, left)
    if not force and (busy := _at_work(session)):
        raise TeamwrightError(
            "undo-refused",
            f"{', '.join(busy)} {'is' if len(busy) == 1 else 'are'} at work",
            do=["wait for it, or end it: Ctrl-C, /interrupt NAME, /stop NAME", "all the same: /undo --force"],
            note="nothing was changed",
        )
    return plan


def preview_undo(place: HistoryLocation, member: str | None, left: tuple[str, ...]) -> UndoPlan:
    """Return the plan of an undo on disk, without changes. Raises as `undo_on_disk`, except for running agents."""
    return _planned(place, member, left)


async def undo_on_disk(
    place: HistoryLocation, member: str | None, left: tuple[str, ...], *, force: bool, agreed: UndoPlan | None = None
) -> UndoResult:
    """Undo the last prompt's edits of a session without a process; the lead is notified at its next resume.

    `agreed` is the plan that the person confirmed. Raises CannotStart (`session-busy`) while a process runs the
    session, and TeamwrightError (`undo-refused`) for files that must not be touched, for running member processes
    (unless `force`), and when the plan differs from `agreed`.
    """
    lease = take_lease(place, "undo")
    try:
        alive = running_members(place)
        if alive and not force:
            raise TeamwrightError(
                "undo-refused",
                f"{', '.join(alive)} {'has a process' if len(alive) == 1 else 'have processes'} and may be at work",
                do=[f"end it: teamwright stop {quote(place.team)}", "all the same: add --force"],
                note="nothing was changed",
            )
        plan = _planned(place, member, left)
        require_agreed(plan, agreed)
        return await apply_undo(place.history, place.cwd, plan, lambda id, text: leave_notice(place, id, text))
    finally:
        lease.release()


def _planned(place: HistoryLocation, member: str | None, left: tuple[str, ...]) -> UndoPlan:
    edits = read_journal(place.history)
    if edits.cut_off is not None and edits.cut_off.scope:
        raise TeamwrightError(
            "undo-refused",
            "a rewind was interrupted",
            do=[f"complete it: teamwright rewind {place.session[:8]}"],
            note="nothing was changed",
        )
    wish = make_undo_request(place, edits, member, left, subagent_owners(place) if member else {})
    removed = RemovedWorktrees(place.home, place.cwd)
    return require_plan(edits, place.history, place.cwd, wish, removed.explain_plan)


def require_agreed(plan: UndoPlan, agreed: UndoPlan | None) -> None:
    """Raise TeamwrightError (`undo-refused`) when the plan differs from the confirmed one."""
    if agreed is not None and plan != agreed:
        what = "there is something else to take back now than was shown"
        raise TeamwrightError("undo-refused", what, do=["look again"], note="nothing was changed")


def _at_work(session: Session) -> list[str]:
    """Return the agents that are in a turn or about to begin one."""
    agents = [run.name or run.id for run in session.agents.running_runs()]
    return [
        *([LEAD_ALIAS] if session.lead.busy else []),
        *(teammate.name for teammate in session.team.busy_members()),
        *agents,
    ]


def take_lease(place: HistoryLocation, action: str) -> Lease:
    """Take the lease of a session without a process, for this action. Raises CannotStart (`session-busy`)."""
    try:
        return Lease.take(lease_path(place.directory), f"{action} in session {place.session}")
    except CannotStart as problem:
        lease_facts = [pair for pair in problem.looked_at if pair[0] != "lease"]
        raise CannotStart(
            "session-busy",
            problem.what,
            looked_at=[("session", place.session), *lease_facts],
            do=[*(["type /undo there"] if action == "undo" else []), f"end it, then {action}"],
            note="nothing was changed",
        ) from None


def leave_notice(place: HistoryLocation, id: str, text: str) -> None:
    """Append the notice to the lead's transcript, for its next model call. Raises StorageError."""
    header = read_header(place.transcript) if place.transcript.exists() else None
    if header is None:
        return
    tags = RuntimeTags(header_tag_key(header))
    transcript = Journal.open(place.transcript)
    try:
        transcript.append(queued_line(f"notice:undo-{id}", [tags.note(text)]))
    finally:
        transcript.close()
