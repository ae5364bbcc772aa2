"""The worktree of a whole session: a new one, the one of an earlier session of its name, or the one of a resume.

Depends on the agent factory. A session without such a worktree loads no module of worktrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from teamwright.agent.transcript import read_header
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, session_list_name
from teamwright.session.agents.agent_factory import WORKTREE_KEY, AgentFactory
from teamwright.session.session_preparation import SessionContext

if TYPE_CHECKING:
    from teamwright.worktrees.worktree_record import WorktreeRecord


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
    worktrees, former = agent_factory.worktrees, Path(str(known.get("cwd", "")))
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
    worktrees = agent_factory.worktrees
    if record.path not in worktrees.leases:
        return
    await worktrees.end(record.tree)


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
