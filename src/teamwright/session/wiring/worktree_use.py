"""The work of members in their worktrees (a port of the task list), and the worktree of a whole session.

A member of this process without a worktree costs one look-up in memory; the roster names the worktrees of the others.
A session without worktrees loads none of their modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from teamwright.agent.transcript import WORKTREE_KEY, read_header
from teamwright.protocol.errors import StorageError, TaskRefused, TeamwrightError, WorktreeRefused
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, session_list_name
from teamwright.protocol.time_limit import time_limit
from teamwright.session.preparation import SessionContext
from teamwright.storage.file_lease import wait_for_lease
from teamwright.teams.outgoing_mail import send_note

if TYPE_CHECKING:
    from teamwright.protocol.task import Task, TaskIntegration
    from teamwright.session.agents.factory import AgentFactory
    from teamwright.session.wiring.worktree_factory import RemoteCommits
    from teamwright.worktrees.member_branch import MemberWorktree
    from teamwright.worktrees.worktree_record import WorktreeRecord


LEASE_WAIT_S = 60.0
"""Seconds that a call waits for another one's use of a worktree, besides the longest commit."""


class TeamWorktrees:
    """The worktrees of the team's members, also of those in other processes; see
    `tasks.completion_conditions.MemberWorktrees`.
    """

    def __init__(
        self, context: SessionContext, agent_factory: AgentFactory, commits: RemoteCommits | None = None
    ) -> None:
        """Take the commits of the member of this process if its lead is on another machine."""
        self._context = context
        self._agent_factory = agent_factory
        self._commits = commits
        self._reported = set[str]()
        """Sentences about changed worktrees of which the lead and the person know."""
        self._told_of_loss = set[str]()

    async def save(self, task: Task, by: str) -> TaskIntegration | None:
        name = task.owner or by
        try:
            if (record := await self._record(name)) is None:
                return None
            async with self._use(record) as worktree:
                saved = await worktree.save(task, name)
                await self._report_missing_hooks(worktree)
                if saved is not None and self._commits is not None:
                    await self._commits.send(saved.tip)
                return saved
        except WorktreeRefused as problem:
            from teamwright.worktrees.worktree_creation import failure_text  # loaded with the worktrees

            what = f"#{task.id} is not completed: {failure_text(problem)}"
            if problem.slug == "worktree-changed":
                await self._report_change(name, what, problem.do)
            raise TaskRefused("work_not_committed", what, do=problem.do) from None

    async def _report_missing_hooks(self, worktree: MemberWorktree) -> None:
        """Notify the person and the lead, once, of hooks that do not run."""
        if "hooks" in self._reported:
            return
        if not (text := await asyncio.to_thread(worktree.missing_hooks)):
            return
        self._reported.add("hooks")
        self._agent_factory.emit(Notice(member=LEAD, text=text, level="warning"))
        team = self._agent_factory.team
        if team is not None and team.lead is not None:
            team.lead.notify(text, "missing-hooks", wakes=False)

    async def _report_change(self, member: str, what: str, do: Sequence[str]) -> None:
        """Notify the person and the lead, once, of a worktree that is not the one that was made."""
        if what in self._reported:
            return
        self._reported.add(what)
        self._agent_factory.emit(Notice(member=member, text=what, level="warning"))
        team = self._agent_factory.team
        if team is None or member == LEAD:
            return
        ways = "; ".join([*do, f"stop {member}, and start another member for the task"])
        text = f"{what}. Its files are not safe there. Do one of: {ways}."
        if team.lead is not None:
            team.lead.notify(text, f"worktree:{member}")
            return
        with suppress(StorageError):  # a full inbox
            await send_note(team, "task-list", LEAD, text, f"the worktree of {member} has changed")

    def has(self, member: str) -> bool:
        return self._own_record(member) is not None

    async def move(self, task: Task, member: str) -> None:
        """See MemberWorktrees. The member is notified when its worktree could not be moved."""
        try:
            if (record := await self._record(member)) is None:
                return
            async with self._use(record) as worktree:
                note = await asyncio.to_thread(worktree.move, task)
        except TeamwrightError as problem:
            note = f"Your worktree was not moved to the integrated work before task #{task.id}: {problem.what}."
        team = self._agent_factory.team
        if not note or team is None:
            return
        if (teammate := team.find_in_process(member)) is not None:
            teammate.notify(note, f"move:{task.id}")
            return
        with suppress(StorageError):  # a full inbox
            await send_note(team, "task-list", member, note, f"about your worktree and #{task.id}")

    @asynccontextmanager
    async def _use(self, record: WorktreeRecord) -> AsyncGenerator[MemberWorktree]:
        """Use a worktree alone among all processes of the team: one call at a time saves or moves it."""
        from teamwright.session.wiring.worktree_factory import make_member_worktree

        limit_s = self._context.settings.worktrees.check_timeout_s + LEASE_WAIT_S
        try:
            async with time_limit(limit_s):
                lease = await wait_for_lease(record.work_lease, f"the work of {record.member}")
        except TimeoutError:
            what = f"another call has used the worktree of {record.member} for {limit_s:g} s"
            raise WorktreeRefused("worktree-refused", what, looked_at=[("lease", str(record.work_lease))]) from None
        try:
            if self._commits is not None:
                await self._commits.receive()
            yield make_member_worktree(self._context, self._agent_factory, record, self._told_of_loss)
        finally:
            lease.release()

    async def _record(self, name: str) -> WorktreeRecord | None:
        """Return the record of a member's worktree; None without one. Raises StorageError."""
        team = self._agent_factory.team
        own = self._own_record(name)
        if (
            self._commits is not None
            or team is None
            or name == LEAD
            or team.find_in_process(name) is not None
            or not team.exists
        ):
            return own
        members = (await team.roster.read()).teammates
        path = next((one.worktree_path for one in members if one.name.lower() == name.lower()), None)
        if not path:
            return own
        from teamwright.worktrees.worktree_record import find_member_record

        names = {team.name, team.session_list_name}
        return find_member_record(self._context.home.worktrees, Path(path), names, name)

    def _own_record(self, name: str) -> WorktreeRecord | None:
        """Return the record of the worktree of a member of this process; None without one."""
        if self._commits is not None:
            return self._commits.record if name.lower() == self._commits.record.member.lower() else None
        inherited = self._agent_factory.inheritances.get(name)
        return inherited.place.record if inherited is not None and inherited.place is not None else None


async def enter_session_worktree(context: SessionContext, agent_factory: AgentFactory, stack: AsyncExitStack) -> str:
    """Let the session's agents work in its worktree, if it has one.

    Returns a note for the lead of a resumed session whose worktree is new. `stack` removes a worktree without work, or
    releases it, unless the session was closed before. Raises TeamwrightError.
    """
    if context.options.session_worktree:
        await _enter(context, agent_factory, Path(context.options.session_worktree), shares=True)
        return ""
    known = _stored(context)
    if context.options.worktree is None and not known:
        return ""
    worktrees = agent_factory.worktrees
    former = Path(str(known.get("cwd", "")))
    own = session_list_name(context.id)
    is_fork = bool(known) and context.options.fork
    name = context.options.worktree or (own if is_fork else str(known.get("name", ""))) or own
    record, is_new = await worktrees.enter(name, former if is_fork and former.is_dir() else None)
    stack.push_async_callback(_leave, agent_factory, record)
    await _enter(context, agent_factory, record.tree)
    begin = f"{record.branch}, which began at {record.base[:12]}" + (f" ({record.base_name})" * bool(record.base_name))
    agent_factory.emit(Notice(member=LEAD, text=f"the session works in the worktree {record.path} on {begin}"))
    if not known or not (is_new or record.path in worktrees.restored):
        return ""
    return (
        f"Your worktree was made again: it is {record.path} on the branch {begin}. Files have the contents of that "
        "commit: read a file again before you change it."
    )


async def _enter(context: SessionContext, agent_factory: AgentFactory, path: Path, *, shares: bool = False) -> None:
    """Let agents work in this worktree. `shares`: the lead's process has its lease."""
    from teamwright.session.agents.agent_workspace import open_workspace

    workspace = await open_workspace(
        agent_factory.worktrees, path, agent_factory.instructions, context.home.own, is_session=True, shares=shares
    )
    agent_factory.worktrees.begin_at(workspace.scope.tree)
    agent_factory.enter_worktree(workspace)


async def _leave(agent_factory: AgentFactory, record: WorktreeRecord) -> None:
    """Give up the worktree of a session that could not be opened."""
    if record.path in agent_factory.worktrees.leases:
        await agent_factory.worktrees.end(record.tree)


def _stored(context: SessionContext) -> Mapping[str, Any]:
    """Return the worktree of a resumed session; empty without one."""
    if not context.resumed or context.room is not None:
        return {}
    return stored_worktree(read_header(context.home.transcript(context.cwd, context.id)) or {})


def stored_worktree(header: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the session's worktree in the first line of the lead's transcript: its `name`, and the directory `cwd` in
    it in which agents work. Empty without one.
    """
    known = header.get(WORKTREE_KEY)
    return cast("Mapping[str, Any]", known) if isinstance(known, dict) else {}
