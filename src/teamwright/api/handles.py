"""Members and tasks as a program holds them: names with what one does to them, and no state of their own.

All is read from the team at the moment it is asked for. Knows a team's rooms; knows no session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias, Unpack

from teamwright.api.argument_checks import check_option_types, refuse_coroutine, require_text
from teamwright.api.options import PermissionMode
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import UnknownMember, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass
from teamwright.session.modes import SessionModes
from teamwright.tasks.task_rules import TaskWishes
from teamwright.teams.mailbox.outgoing import Sent, send_text
from teamwright.teams.mode_rank import ModeSet
from teamwright.teams.shutdown import kill
from teamwright.teams.task_owners import notify_owners, require_owner
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate

USER = "user"
"""As whom a program writes and changes tasks: it stands for the person who runs it."""

TaskRef: TypeAlias = Task | str | int
"""A task, or its number."""


@dataclass(frozen=True, slots=True)
class Member:
    """A teammate, by name: what it is doing, a way to write to it and to end it. It may be gone any time."""

    name: str
    _team: SessionTeam = field(repr=False)
    _modes: SessionModes = field(repr=False, compare=False)

    @property
    def state(self) -> str:
        """`pending idle working blocked awaiting stopping`, or `gone` when it is no longer there."""
        mate = self._team.find(self.name)
        return str(mate.state) if mate is not None else "gone"

    @property
    def waiting_on(self) -> str:
        """What a blocked or awaiting member waits for, in words; empty otherwise."""
        mate = self._team.find(self.name)
        return mate.waiting_on if mate is not None else ""

    @property
    def model(self) -> str:
        """The model it runs on; empty when it is no longer there."""
        mate = self._team.find(self.name)
        return mate.model if mate is not None else ""

    @property
    def mode(self) -> str:
        """Its permission mode, the lead's where it has none of its own; empty when it is no longer there."""
        mode = self._modes.mode_of(self.name)
        return str(mode) if mode is not None else ""

    async def set_mode(self, mode: PermissionMode | Literal["bubble"]) -> ModeSet:
        """Another permission mode, from its next call on; with `bubble` the lead's, whatever becomes of that.

        No member exceeds the lead: what reaches further is set, and `held_by` of the answer names the lead's mode that
        decides meanwhile. Raises UnknownMember when it is gone, UsageError for no mode, TeamRefused for
        bypassPermissions in a session that did not begin in it.
        """
        return await self._modes.set(mode, self.name, source="mode=")

    async def send(self, text: str, summary: str = "") -> Sent:
        """Write to it as the user. Raises UnknownMember when it is gone, UsageError for empty text."""
        return await send_text(self._team, USER, self.name, text, summary)

    def interrupt(self) -> bool:
        """Cut its turn short: it stays, idle, and what it was at goes along with the next words to it.

        False when it is not in a turn, or is gone.
        """
        mate = self._team.find(self.name)
        return mate is not None and mate.interrupt()

    async def stop(self) -> None:
        """End it at once; its open tasks go back to the list. Raises UnknownMember when it is gone."""
        await kill(self._team, self.require(), "stopped by the program")

    def require(self) -> Teammate:
        """Its life, not a part of what is promised. Raises UnknownMember when it is gone, UsageError for the lead."""
        mate = self._team.find(require_text("a member's name", self.name))
        if mate is None and self.name.lower() in (LEAD, LEAD_ALIAS):
            what = "the lead is no member: it ends with the block, and its run with run.cancel()"
            raise UsageError("usage", what, note="nothing was done")
        if mate is None:
            known = ", ".join(one.name for one in self._team.running_members) or "none"
            raise UnknownMember("unknown-member", f'"{self.name}" is not running', looked_at=[("running", known)])
        return mate


@dataclass(frozen=True, slots=True)
class Tasks:
    """The team's task list: what the program puts there, members claim when they are idle."""

    _team: SessionTeam = field(repr=False)
    _require_running: Callable[[], None] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<Tasks of {self._team.name!r}>"

    async def add(
        self,
        subject: str,
        description: str = "",
        *,
        after: Iterable[TaskRef] | TaskRef = (),
        metadata: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        check: str = "",
    ) -> Task:
        """Put a task on the list; it waits for those in `after` (tasks or their numbers).
        `metadata={"for": ["ada"]}` keeps it for these members, `{"needs": ["Bash"]}` for those that have the tool;
        `budget` caps what all work on it may use in tokens and money; `check` is a shell command that must succeed in
        the directory of whoever works on it before the task can be completed.
        Raises UsageError (no subject), TaskRefused (a number that is not there); then nothing was added.
        """
        self._require_running()
        for what, text in (("a subject", subject), ("a description", description), ("a check", check)):
            require_text(what, text)
        check_option_types({"budget": budget, "metadata": metadata})
        if check:
            metadata = {**(metadata or {}), "check": check}
        if budget:
            metadata = {**(metadata or {}), "budget": budget.as_json()}
        refuse_coroutine(after)
        blockers = after if isinstance(after, Iterable) and not isinstance(after, Task | str) else [after]
        return await self._team.tasks.create(
            subject, description or subject, by=USER, blocked_by=[_number(one) for one in blockers], metadata=metadata
        )

    async def update(self, task: TaskRef, **changes: Unpack[TaskWishes]) -> Task:
        """Change `subject description status owner metadata add_blocks add_blocked_by`; returns the task as it is now.

        `status` is pending, in_progress, completed or deleted. The new and the former owner are notified. Raises
        TaskRefused when the graph forbids it, UnknownMember for an owner that is not a member, UsageError for a word
        that is none of these; nothing was changed then.
        """
        self._require_running()
        unknown = sorted(set(changes) - set(TaskWishes.__annotations__))
        if unknown:
            raise UsageError("usage", f"{unknown[0]}= is nothing of a task that can be changed")
        check_option_types({"metadata": changes.get("metadata")})
        await require_owner(self._team, changes.get("owner"), USER, id=_number(task))
        change = await self._team.tasks.update(_number(task), by=USER, lead=True, **changes)
        await notify_owners(self._team, change, USER)
        return change.task

    async def all(self) -> list[Task]:
        """All tasks in numeric order, as they are on disk now."""
        return await self._team.tasks.all()

    async def get(self, task: TaskRef) -> Task | None:
        """One task as it is on disk now, or None."""
        return await self._team.tasks.get(_number(task))


def _number(task: TaskRef) -> str:
    refuse_coroutine(task)
    return task.id if isinstance(task, Task) else str(task)
