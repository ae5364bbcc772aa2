"""Handles for the members and the tasks of a team: names with operations, without state.

Every property reads from the team when it is used. Depends on the packages teams and tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from msgspec import Struct

from teamwright.api.options import PermissionMode, check_option_types, refuse_coroutine, require_text
from teamwright.api.running_team import RunningTeam
from teamwright.protocol.errors import UsageError
from teamwright.protocol.field_docs import show_fields
from teamwright.protocol.members import MemberState
from teamwright.protocol.secret_texts import repr_without
from teamwright.protocol.task import Task
from teamwright.protocol.usage import Budget
from teamwright.session.control.live_agents import find_member
from teamwright.tasks.completion_conditions import ReviewAnswer
from teamwright.tasks.task_rules import USER, TaskWishes
from teamwright.teams.mode_rank import ModeSet
from teamwright.teams.outgoing_mail import Sent, send_text
from teamwright.teams.shutdown import kill
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_creation import notify_owners, require_owner
from teamwright.teams.teammate import Teammate

if TYPE_CHECKING:
    from teamwright.worktrees.integration_store import IntegrationEntry

TaskRef: TypeAlias = Task | str | int
"""A task, or its number."""


async def wait_until(team: SessionTeam, is_reached: Callable[[], bool]) -> None:
    """Wait until this is true of the team, which is asked after each of its changes."""
    while True:
        team.changed.clear()
        if is_reached():
            return
        await team.changed.wait()


class Member(Struct, frozen=True):
    """A handle for a teammate, by name. The teammate may end at any time; its state is `gone` then."""

    name: str
    _running: RunningTeam

    def __repr__(self) -> str:
        return repr_without(self, "_running")

    @property
    def _team(self) -> SessionTeam:
        return self._running.team

    @property
    def state(self) -> MemberState:
        """The state: one of `pending idle working blocked awaiting stopping`, or `gone` after the teammate ended."""
        teammate = self._team.find(self.name)
        return teammate.state if teammate is not None else MemberState.GONE

    @property
    def waiting_on(self) -> str:
        """The reason why a blocked or awaiting member waits, as a text; empty otherwise."""
        teammate = self._team.find(self.name)
        return teammate.waiting_on if teammate is not None else ""

    @property
    def model(self) -> str:
        """The name of the member's model; empty after the member ended."""
        teammate = self._team.find(self.name)
        return teammate.model if teammate is not None else ""

    @property
    def mode(self) -> str:
        """The permission mode: the member's, or the lead's when the member has none. Empty after the member ended."""
        mode = self._running.modes.mode_of(self.name)
        return str(mode) if mode is not None else ""

    async def set_mode(self, mode: PermissionMode | Literal["bubble"]) -> ModeSet:
        """Set the permission mode from the member's next call on. With `bubble` the member follows the lead's mode.

        A member is never allowed more than the lead. A wider mode is stored, but the lead's mode decides as long as it
        is narrower; `held_by` of the result names it. Raises UnknownMember after the member ended, UsageError for an
        unknown mode, and TeamRefused for bypassPermissions in a session that did not start in it.
        """
        return await self._running.modes.set(mode, self.name, source="mode=")

    async def send(self, text: str, summary: str = "") -> Sent:
        """Send a message to the member as the user.

        Raises UnknownMember after the member ended, UsageError for empty text, and StorageError (InboxFull,
        LockTimeout) when the inbox does not accept it; nothing is sent then.
        """
        return await send_text(self._team, USER, self.name, text, summary)

    async def wait_idle(self) -> MemberState:
        """Wait until the member rests with its mail handled, and return its state: `idle`, or `gone` after it ended."""

        def rests() -> bool:
            teammate = self._team.find(self.name)
            return teammate is None or (teammate.is_resting and not teammate.wake_target.wake_pending)

        await wait_until(self._team, rests)
        return self.state

    def interrupt(self) -> bool:
        """Interrupt the member's turn. The member becomes idle, and its next message also names the interrupted work.

        Returns False when the member is not in a turn or has ended.
        """
        teammate = self._team.find(self.name)
        return teammate is not None and teammate.interrupt()

    async def stop(self) -> None:
        """Kill the member; its open tasks return to the list.

        Raises UnknownMember after the member ended, UsageError for the lead.
        """
        await kill(self._team, self.require(), "stopped by the program")

    def require(self) -> Teammate:
        """Return the teammate object, which is not public API.

        Raises UnknownMember after the member ended, UsageError for the lead.
        """
        teammate = find_member(self._team, require_text("a member's name", self.name))
        if teammate is None:
            what = "the lead is no member: it ends with the block, and its run with run.cancel()"
            raise UsageError("usage", what, note="nothing was done")
        return teammate


class TaskTerms(TypedDict, total=False):
    """The conditions of a new task; see `Tasks.add`."""

    budget: Budget | None
    """Caps on tokens and money of all work on the task."""

    check: str
    """A shell command that must succeed in the owner's directory before the task can be completed."""

    writes: Sequence[str]
    """Path patterns below the repository that the task changes."""

    review: Literal["member", "lead", "human"] | None
    """The reviewer whose approval a completion needs."""


show_fields(TaskTerms)


class Tasks(Struct, frozen=True):
    """The team's task list. The program adds tasks, and idle members claim them."""

    _running: RunningTeam

    def __repr__(self) -> str:
        return f"<Tasks of {self._running.name!r}>"

    @property
    def _team(self) -> SessionTeam:
        return self._running.team

    async def add(
        self,
        subject: str,
        description: str = "",
        *,
        after: Iterable[TaskRef] | TaskRef = (),
        metadata: Mapping[str, Any] | None = None,
        **terms: Unpack[TaskTerms],
    ) -> Task:
        """Add a task to the list and return it. The tasks in `after` (tasks or their numbers) block it.

        `metadata={"for": ["ada"]}` reserves the task for these members, `{"needs": ["Bash"]}` for members with these
        tools. `budget` caps tokens and money of all work on the task. `check` is a shell command that must succeed in
        the working directory of the owner before the task can be completed. `writes` are path patterns below the
        repository that the task changes: in one checkout it is not worked on beside a task with common paths. `review`
        is the reviewer whose approval a completion needs. Raises UsageError without a subject or
        for a value that is no task number, and TaskRefused for an unknown number; nothing is added then.
        """
        self._running.require_entered()
        budget = terms.get("budget")
        check = terms.get("check", "")
        if unknown := sorted(set(terms) - set(TaskTerms.__annotations__)):
            raise UsageError("usage", f"{unknown[0]}= is nothing that a task has")
        for what, text in (("a subject", subject), ("a description", description), ("a check", check)):
            require_text(what, text)
        check_option_types({"budget": budget, "metadata": metadata})
        if check:
            metadata = {**(metadata or {}), "check": check}
        if writes := list(terms.get("writes", ())):
            metadata = {**(metadata or {}), "writes": writes}
        if review := terms.get("review"):
            metadata = {**(metadata or {}), "review": review}
        if budget:
            metadata = {**(metadata or {}), "budget": budget.as_json()}
        refuse_coroutine(after)
        blockers = after if isinstance(after, Iterable) and not isinstance(after, Task | str) else [after]
        return await self._team.tasks.create(
            *(subject, description or subject),
            by=USER,
            blocked_by=[_number(one) for one in blockers],
            metadata=metadata,
        )

    async def answer_review(self, task: TaskRef, *, approve: bool, comment: str = "") -> Task:
        """Approve or return the finished work of a task as the user; `comment` says what has to change.

        Returns the task: completed, or open again. Raises TaskRefused (`not_in_review`) when it waits for no review,
        and UsageError for a return without a comment.
        """
        self._running.require_entered()
        return await self._team.tasks.answer_review(_number(task), ReviewAnswer(approve, comment), by=USER, lead=True)

    async def update(self, task: TaskRef, **changes: Unpack[TaskWishes]) -> Task:
        """Change fields of a task: `subject description active_form status owner metadata writes review add_blocks
        add_blocked_by`.

        Returns the changed task. `status` is pending, in_progress, completed or deleted; an empty `owner` removes the
        owner. The new and the former owner are notified. Raises TaskRefused when the task graph forbids the change,
        UnknownMember for an owner that is not a member, and UsageError for an unknown field or status. Nothing is
        changed then.
        """
        self._running.require_entered()
        unknown = sorted(set(changes) - set(TaskWishes.__annotations__))
        if unknown:
            raise UsageError("usage", f"{unknown[0]}= is nothing of a task that can be changed")
        check_option_types({"metadata": changes.get("metadata")})
        await require_owner(self._team, changes.get("owner"), USER, id=_number(task))
        change = await self._team.tasks.update(_number(task), by=USER, lead=True, **changes)
        await notify_owners(self._team, change, USER)
        return change.task

    async def all(self) -> list[Task]:
        """Return all tasks in numeric order, as they are on disk."""
        return await self._team.tasks.all()

    async def get(self, task: TaskRef) -> Task | None:
        """Return one task as it is on disk, or None. Raises UsageError for a value that is no task number."""
        return await self._team.tasks.get(_number(task))


def _number(task: TaskRef) -> str:
    refuse_coroutine(task)
    return task.id if isinstance(task, Task) else str(task)


class IntegrationQueue(Struct, frozen=True):
    """The integration of a team: finished work of members in worktrees, merged into one branch."""

    _running: RunningTeam

    def __repr__(self) -> str:
        return f"<IntegrationQueue of {self._running.name!r}>"

    @property
    def branch(self) -> str:
        """The branch with the integrated work, which need not exist yet."""
        return self._running.integration.open().branch

    async def entries(self) -> list[IntegrationEntry]:
        """Return the commits of completed tasks with their states, in the order of the tasks. Raises StorageError."""
        return await self._running.integration.open().store.entries()

    async def wait(self) -> list[IntegrationEntry]:
        """Wait until each queued commit is merged or returned, and return all entries."""
        self._running.require_entered()
        await wait_until(self._running.team, lambda: not self._running.integration.is_working)
        return await self.entries()

    async def fast_forward(self, branch: str) -> str:
        """Move a branch of the repository forward to the integrated work, and return its new commit.

        Raises WorktreeRefused for a branch with other commits, and for a checkout with uncommitted changes.
        """
        from teamwright.worktrees.integration import fast_forward  # loaded only for a team with worktrees

        queue = self._running.integration.open()
        return await asyncio.to_thread(fast_forward, queue.git, branch, queue.branch)
