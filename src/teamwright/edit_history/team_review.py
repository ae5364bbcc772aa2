"""The review of a team's work: each member's report, changes, tasks with their checks, and cost; and the actions on it.

The actions are accept, return with a comment, undo, and commit; one table has them all. Everything works on
saved teams: in the session, in another terminal and after the end of the run. Depends on the edit history and tasks.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.transcript import USER_MESSAGE, messages_backward
from teamwright.edit_history.edit_journal_reader import EditJournal, read_journal, record_accepted
from teamwright.edit_history.history_location import (
    HistoryLocation,
    agents_of_member,
    history_of_session,
    subagent_owners,
)
from teamwright.edit_history.queries import undo_in_session, undo_on_disk
from teamwright.edit_history.removed_worktrees import RemovedWorktrees
from teamwright.edit_history.session_diff import FileChange, file_changes
from teamwright.git.git_calls import git_program
from teamwright.git.repository import work_tree
from teamwright.processes.program_environment import own_variables, without_git_variables
from teamwright.protocol.errors import TeamwrightError, UnknownMember, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, display_name, session_list_name
from teamwright.protocol.messages import message_text
from teamwright.protocol.task import Task, TaskStatus
from teamwright.saved.member_control import send
from teamwright.saved.saved_members import match_member_name, transcripts_of
from teamwright.saved.team_access import FileAccess, SavedTeamAccess, find_address
from teamwright.saved.teams import find_tasks, find_team_view
from teamwright.storage.paths import Home
from teamwright.tasks.completion_conditions import ReviewAnswer, reopen, withdraw
from teamwright.tasks.task_list import TaskList
from teamwright.tasks.task_rules import USER
from teamwright.tasks.task_store import FollowedTaskStore
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.snapshots import TaskView
from teamwright.views.cost import CostRow, cost_of

if TYPE_CHECKING:
    from teamwright.session.session import Session

_SEARCHED = 60
"""The newest messages of a transcript that are searched for the last report."""


class MemberReview(Struct, frozen=True):
    """The work of one member. `report` is its last text, `accepted` the time of the user's acceptance, if it is valid.

    `model_calls`, `tokens` and `usd` contain those of its sub-agents; `usd` is None for an unknown price.
    """

    name: str
    report: str = ""
    accepted: str = ""
    tasks: tuple[TaskView, ...] = ()
    files: tuple[FileChange, ...] = ()
    model_calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to review."""
        return not (self.report or self.tasks or self.files)


class TeamReview(Struct, frozen=True):
    """The work of a team: of its members, the lead first. The team may be deleted, or the session may have none.

    `running` is the session, when this process runs it.
    """

    access: SavedTeamAccess
    place: HistoryLocation
    members: tuple[MemberReview, ...]
    running: Session | None = None

    @property
    def home(self) -> Home:
        """The home in which the team is read."""
        return self.access.home

    def member(self, name: str) -> MemberReview:
        """Return the work of this member. Raises UnknownMember."""
        full_name = match_member_name(name, [one.name for one in self.members], f"session {self.place.session[:8]}")
        return next(one for one in self.members if one.name == full_name)


def team_review(access: SavedTeamAccess, place: HistoryLocation) -> TeamReview:
    """Return the review of a team, also of a deleted one, or of a session. Raises StorageError."""
    return _review(access, place)


@asynccontextmanager
async def review_in_session(session: Session) -> AsyncGenerator[TeamReview]:
    """Give the review of a session of this process for the block. Raises StorageError, CannotStart (`database`)."""
    async with _open_session_access(session) as access:
        yield replace(_review(access, history_of_session(session)), running=session)


@asynccontextmanager
async def _open_session_access(session: Session) -> AsyncGenerator[SavedTeamAccess]:
    """Give the access to the team of a session, also when it is in a database."""
    if not isinstance(stores := session.team.stores, FileStores):
        from teamwright.database.database_stores import DatabaseStores
        from teamwright.saved.database_access import open_database_access

        if isinstance(stores, DatabaseStores):
            async with open_database_access(stores.database.address, session.team.name or session.id) as access:
                yield access
                return
    yield FileAccess(session.agent_factory.home)


def _review(access: SavedTeamAccess, place: HistoryLocation) -> TeamReview:
    home = access.home
    edits = read_journal(place.history)
    owners = subagent_owners(place)
    tasks = _tasks(home, place)
    costs = {row.name: row for row in cost_of(home, Path(place.cwd), place.session).members}
    names = [LEAD_ALIAS, *_roster(home, place), *costs, *(task.owner for task in tasks if task.owner)]
    names += [display_name(owners.get(agent, agent)) for agent in edits.members]
    members = (
        _member(place, edits, owners, one, [task for task in tasks if task.owner == one], costs.get(one))
        for one in dict.fromkeys(map(display_name, names))
    )
    return TeamReview(access, place, tuple(one for one in members if not one.is_empty))


def _roster(home: Home, place: HistoryLocation) -> list[str]:
    with suppress(TeamwrightError):
        return find_team_view(home, place.team, archived=True).member_names if place.team else []
    return []


def _tasks(home: Home, place: HistoryLocation) -> Sequence[TaskView]:
    with suppress(TeamwrightError):
        return find_tasks(home, place.team or session_list_name(place.session))
    return ()


def _member(
    place: HistoryLocation,
    edits: EditJournal,
    owners: dict[str, str],
    name: str,
    tasks: Sequence[TaskView],
    cost: CostRow | None,
) -> MemberReview:
    by: tuple[str, ...] = ()
    with suppress(TeamwrightError, UsageError):  # an external member, or one without edits
        by = agents_of_member(place, edits, name, owners)
    changes = file_changes(edits, place.history, place.cwd, by, owners) if by else iter(())
    files = tuple(RemovedWorktrees(place.home, place.cwd).explain_changes(changes))
    newest = max((one.at for lines in edits.changes.values() for one in lines if one.member in by), default="")
    accepted = edits.accepted.get(name, "")
    calls, tokens, usd = _cost(cost)
    return MemberReview(
        name,
        _report(place, name),
        accepted if accepted > newest else "",
        tuple(tasks),
        files,
        calls,
        tokens,
        usd,
    )


def _cost(row: CostRow | None) -> tuple[int, int, float | None]:
    """Return model calls, tokens and cost of a member with its sub-agents."""
    if row is None:
        return 0, 0, 0.0
    calls = row.model_calls
    tokens = row.usage.tokens
    usd = row.usd
    for below in map(_cost, row.below):
        calls += below[0]
        tokens += below[1]
        usd = None if usd is None or below[2] is None else usd + below[2]
    return calls, tokens, usd


def _report(place: HistoryLocation, name: str) -> str:
    """Return the newest text of a member, from its newest transcript; empty without one."""
    paths = transcripts_of(place.directory, LEAD if name == LEAD_ALIAS else name)
    paths += [path for room in place.rooms if room.name == name for path in room.glob("agents/*.jsonl")]
    found = [path for path in paths if path.exists()]
    if not found:
        return ""
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    with suppress(OSError, ValueError, TeamwrightError):
        newest_items = islice(messages_backward(newest), _SEARCHED)
        answers = (cast("dict[str, Any]", json.loads(item)) for item in newest_items if _is_answer(item))
        return next((text for one in answers if (text := message_text(one["content"]).strip())), "")
    return ""


def _is_answer(item: bytes) -> bool:
    return not item.startswith(USER_MESSAGE)


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
    """Accept the work, and approve the tasks of the member whose review is the person's."""
    history = review.place.require_here().history
    approved = await _answer_reviews(review, member, ReviewAnswer(True))
    record_accepted(history, member.name)
    return f"the work of {member.name} is accepted" + (f", and {approved} is approved" if approved else "")


async def _answer_reviews(review: TeamReview, member: MemberReview, answer: ReviewAnswer) -> str:
    """Answer the reviews of the member's tasks that wait for a person, and return their numbers; empty without one.

    Raises TaskRefused, StorageError.
    """
    waiting = [task.id for task in member.tasks if task.review is not None and task.review.is_for_person]
    tasks = review.running.team.tasks if review.running is not None else TaskList(_task_store(review))
    for id in waiting:
        await tasks.answer_review(id, answer, by=USER)
    return ", ".join(f"#{id}" for id in waiting)


def _task_store(review: TeamReview) -> FollowedTaskStore:
    """Return the store of the team's task list, or of the session's without a team."""
    directory = session_list_name(review.place.session)
    if review.place.team:
        target, _ = find_address(review.access, review.place.team)
        directory = (target.file and target.file.task_list) or target.directory
    return review.access.tasks(directory)


async def _return(review: TeamReview, member: MemberReview, text: str) -> str:
    """Return the tasks of the member that wait for a person's review; else open its last completed task again, and send
    the comment; to the lead when the member has ended.
    """
    if returned := await _answer_reviews(review, member, ReviewAnswer(False, text)):
        return f"{returned} of {member.name} is returned, with your comment"
    if not review.place.team:
        raise TeamwrightError(
            "unknown-team",
            "this session has no team to which a comment could be sent",
            do=[f"say it in the session: teamwright --resume {review.place.session[:8]}"],
            note="nothing was sent",
        )
    target, _ = find_address(review.access, review.place.team)
    to = member.name
    about = "your work"
    try:
        target.member(member.name)
    except UnknownMember:
        to = LEAD_ALIAS
        about = f"the work of {member.name}, who has ended"
    task = await _reopen_task(review, member, keeps_owner=to == member.name)
    which = f" on task #{task}, which is open again" if task else ""
    delivery = await send(target, to, f"The user reviewed {about}{which}, and returns it: {text}")
    later = f"; it is read after: {delivery.resume}" if delivery.resume else ""
    return f"returned to {delivery.to}{f', task #{task} is open again' if task else ''}{later}"


async def _reopen_task(review: TeamReview, member: MemberReview, *, keeps_owner: bool) -> str:
    """Open the last completed task of the member again, and return its number; empty without one."""
    done = [task.id for task in member.tasks if task.status == TaskStatus.COMPLETED]
    if not done:
        return ""

    def change(task: Task, _waits: object) -> Task:
        return withdraw(task, reopen(task, "", keeps_owner=keeps_owner))

    await _task_store(review).change(done[-1], change)
    return done[-1]


async def _undo(review: TeamReview, member: MemberReview, _text: str) -> str:
    if review.running is not None:
        result = await undo_in_session(review.running, member.name, (), force=False)
    else:
        result = await undo_on_disk(review.place.require_here(), member.name, (), force=False)
    names = ", ".join(file.path for file in result.changed) or "no file"
    return f"took back the last edits of {member.name}: {names}"


async def _commit(review: TeamReview, member: MemberReview, text: str) -> str:
    """Commit the files that the member changed, with the person's own git, and nothing else."""
    tree = work_tree(Path(review.place.require_here().cwd))
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
            [git_program(), "-C", str(tree), *args],
            env={**own_variables(without_git_variables(os.environ)), "GIT_LITERAL_PATHSPECS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as problem:
        raise TeamwrightError("failed", f"git could not be started: {problem.strerror}") from problem
    if done.returncode:
        output = " ".join((done.stderr or done.stdout).split())[:_MAX_GIT_OUTPUT]
        raise TeamwrightError(
            "failed", f"git {args[0]} failed: {output}", do=[f"look at it: git -C {quote(str(tree))} status"]
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
