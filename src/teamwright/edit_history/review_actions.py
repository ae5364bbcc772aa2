"""The actions on a member's work in a review: accept, return with a comment, undo, commit. One table has them all.

Each acts on files, so it works in the session, in another terminal and after the end of the run. Depends on reviews.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TypeAlias

from msgspec import Struct

from teamwright.edit_history.edit_journal import display_name, record_accepted
from teamwright.edit_history.queries import undo_in_session, undo_on_disk
from teamwright.edit_history.team_review import MemberReview, TeamReview
from teamwright.processes.repository_discovery import work_tree
from teamwright.protocol.errors import TeamwrightError, UnknownMember, UsageError
from teamwright.protocol.ids import LEAD_ALIAS
from teamwright.protocol.task import TaskStatus
from teamwright.session.control.send_from_outside import send
from teamwright.session.lookup.team_address import TeamAddress, find_address
from teamwright.tasks.task_check import reopen
from teamwright.teams.file_stores import FileStores

Act: TypeAlias = Callable[[TeamReview, MemberReview, str], Awaitable[str]]
"""Carries out an action with the person's text, and returns the sentence about its result."""

_MAX_GIT_OUTPUT = 600


class ReviewAction(Struct, frozen=True):
    """An action of a review. `key` is typed in a terminal; `text` names the text that it needs, if any."""

    name: str
    key: str
    help: str
    act: Act
    text: str = ""


async def _accept(review: TeamReview, member: MemberReview, _text: str) -> str:
    record_accepted(review.place.history, member.name)
    return f"the work of {member.name} is accepted"


async def _return(review: TeamReview, member: MemberReview, text: str) -> str:
    """Open the member's last completed task again and send the comment; to the lead when the member has ended."""
    if not review.place.team:
        raise TeamwrightError(
            "unknown-team",
            "this session has no team to which a comment could be sent",
            do=[f"say it in the session: teamwright --resume {review.place.session[:8]}"],
            note="nothing was sent",
        )
    target, _ = find_address(review.home, review.place.team)
    to, about = member.name, "your work"
    try:
        target.member(member.name)
    except UnknownMember:
        to, about = LEAD_ALIAS, f"the work of {member.name}, who has ended"
    task = await _reopen_task(review, target, member, keeps_owner=to == member.name)
    which = f" on task #{task}, which is open again" if task else ""
    delivery = await send(target, to, f"The user reviewed {about}{which}, and returns it: {text}")
    later = f"; it is read after: {delivery.resume}" if delivery.resume else ""
    return f"returned to {delivery.to}{f', task #{task} is open again' if task else ''}{later}"


async def _reopen_task(review: TeamReview, target: TeamAddress, member: MemberReview, *, keeps_owner: bool) -> str:
    """Open the last completed task of the member again, and return its number; empty without one."""
    done = [task.id for task in member.tasks if task.status == TaskStatus.COMPLETED]
    if not done:
        return ""
    store = FileStores(review.home).tasks((target.file and target.file.task_list) or target.directory)
    await store.change(done[-1], lambda task, _waits: reopen(task, "", keeps_owner=keeps_owner))
    return done[-1]


async def _undo(review: TeamReview, member: MemberReview, _text: str) -> str:
    if review.running is not None:
        made = await undo_in_session(review.running, member.name, (), force=False)
    else:
        made = await undo_on_disk(review.place, member.name, (), force=False)
    names = ", ".join(file.path for file in made.changed) or "no file"
    return f"took back the last edits of {member.name}: {names}"


async def _commit(review: TeamReview, member: MemberReview, text: str) -> str:
    """Commit the files that the member changed, with the person's own git, and nothing else."""
    tree = work_tree(Path(review.place.cwd))
    files = [file.file for file in member.files if tree is not None and Path(file.file).is_relative_to(tree)]
    if tree is None or not files:
        why = f"{member.name} changed no file in a repository" if tree is not None else "this is no git repository"
        raise UsageError("usage", why, do=["teamwright diff"], note="nothing was committed")
    others = sorted({share.name for file in member.files for share in file.members} - {member.name})
    await asyncio.to_thread(_git, tree, "add", "-A", "--", *files)
    await asyncio.to_thread(_git, tree, "commit", "-q", "-m", text, "--", *files)
    head = await asyncio.to_thread(_git, tree, "rev-parse", "--short", "HEAD")
    shared = f"; it also has edits of {', '.join(map(display_name, others))}" if others else ""
    return f"committed {len(files)} file{'' if len(files) == 1 else 's'} of {member.name} as {head}{shared}"


def _git(tree: Path, *args: str) -> str:
    """Run git as the person would, with their configuration and hooks. Raises TeamwrightError (`failed`)."""
    try:
        done = subprocess.run(
            ["git", "-C", str(tree), *args],
            env={**os.environ, "GIT_LITERAL_PATHSPECS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as problem:
        raise TeamwrightError("failed", f"git could not be started: {problem.strerror}") from problem
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:_MAX_GIT_OUTPUT]
        raise TeamwrightError(
            "failed", f"git {args[0]} failed: {said}", do=[f"look at it: git -C {quote(str(tree))} status"]
        )
    return done.stdout.strip()


REVIEW_ACTIONS: Mapping[str, ReviewAction] = {
    one.name: one
    for one in (
        ReviewAction("accept", "a", "accept the work", _accept),
        ReviewAction("return", "r", "send a comment, and open the member's last task again", _return, "COMMENT"),
        ReviewAction("undo", "u", "take back the member's edits of the last prompt", _undo),
        ReviewAction("commit", "c", "commit the files that the member changed", _commit, "MESSAGE"),
    )
}
"""The actions of a review by name. All user interfaces read this table."""


async def act_on_review(review: TeamReview, action: str, name: str, text: str) -> str:
    """Carry out an action on the work of a member, and return the sentence about its result.

    Raises UsageError for an unknown action and a missing text, UnknownMember, and what the action raises.
    """
    found = next((one for one in REVIEW_ACTIONS.values() if action in (one.name, one.key)), None)
    if found is None:
        known = ", ".join(REVIEW_ACTIONS)
        raise UsageError("usage", f"a review has no action {action[:40]!r}", looked_at=[("actions", known)])
    if found.text and not text.strip():
        raise UsageError(
            "usage",
            f"{found.name} needs a text",
            do=[f"{found.name} {name} {found.text}"],
            note="nothing was changed",
        )
    return await found.act(review, review.member(name), text.strip())
