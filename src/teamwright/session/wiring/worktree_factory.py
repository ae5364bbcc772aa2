"""The worktrees of a session's process and the integration of their branches, made when the first agent needs one.

A member on another machine than its lead has its own repository: its commits go to the lead's repository as git
bundles, and integrated work comes back the same way.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.processes.ipc import IpcBody
from teamwright.protocol.errors import WorktreeRefused
from teamwright.sandbox.policy import SandboxSettings, narrow
from teamwright.session.preparation import SessionContext
from teamwright.session.wiring.program_confinement import confine_line, lead_gate
from teamwright.teams.team import SessionTeam
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, command_environment
from teamwright.tools.shell.command_guards import QUARANTINE
from teamwright.tools.shell.startup import plain_shell
from teamwright.worktrees.commit_bundle import BEGIN, bundle_ref, fetch_bundle
from teamwright.worktrees.commit_limits import MEGABYTE, CommitLimits
from teamwright.worktrees.integration import Integration, MergeStrategy
from teamwright.worktrees.integration_store import IntegrationEntry
from teamwright.worktrees.member_branch import COMMIT_WITH_HOOKS, MemberWorktree
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.session_worktrees import SessionWorktrees
from teamwright.worktrees.worktree_creation import SetupCommand
from teamwright.worktrees.worktree_identity import with_identity
from teamwright.worktrees.worktree_record import WorktreeRecord, integrated_ref, integration_branch, member_branch

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import CommandConfinement
    from teamwright.session.agents.factory import AgentFactory


def make_worktrees(context: SessionContext, agent_factory: AgentFactory) -> SessionWorktrees:
    """Create the worktrees of this process."""
    return SessionWorktrees(
        context.home.worktrees,
        context.cwd,
        context.id,
        agent_factory.emit,
        lambda: agent_factory.policy.scope.trusted_git,
        _setup(context, agent_factory),
        agent_factory.toolset.hooking,
        context.home.name_in,
    )


def make_member_worktree(
    context: SessionContext, agent_factory: AgentFactory, record: WorktreeRecord, told_of_loss: set[str]
) -> MemberWorktree:
    """Return the worktree of one member. Raises CannotStart when its repository is gone."""
    settings = context.settings.worktrees
    hooks = COMMIT_WITH_HOOKS if settings.commit_hooks else ""
    commit = _command(context, agent_factory, hooks, settings.check_timeout_s, "commit")
    return MemberWorktree(
        open_repository(agent_factory, Path(record.repository)),
        record,
        commit,
        commits=settings.uncommitted == "commit",
        trailer=context.settings.git_trailer,
        told_of_loss=told_of_loss,
        limits=CommitLimits(settings.max_file_mb * MEGABYTE, settings.max_commit_mb * MEGABYTE),
    )


def make_integration(
    context: SessionContext,
    agent_factory: AgentFactory,
    team: SessionTeam,
    report: Callable[[IntegrationEntry], None],
) -> Integration:
    """Return the integration of the team's branches; `report` receives each entry with its new state.

    Raises CannotStart outside a repository.
    """
    settings = context.settings.worktrees
    name = team.name or team.session_list_name
    return Integration(
        open_repository(agent_factory, context.cwd),
        context.home.worktrees,
        name,
        team.stores.integration(team.directory or name),
        _command(context, agent_factory, settings.check, settings.check_timeout_s, "check"),
        _setup(context, agent_factory),
        MergeStrategy(settings.merge),
        report,
    )


def open_repository(agent_factory: AgentFactory, start: Path) -> RepositoryGit:
    """Return the repository of this directory. Raises CannotStart outside one."""
    return RepositoryGit.open(start, agent_factory.policy.scope.trusted_git)


def _setup(context: SessionContext, agent_factory: AgentFactory) -> SetupCommand:
    settings = context.settings.worktrees
    return _command(context, agent_factory, settings.setup, settings.setup_timeout_s, "setup")


def _command(
    context: SessionContext, agent_factory: AgentFactory, command: str, timeout_s: float, purpose: str
) -> SetupCommand:
    """Return a command that runs in worktrees with the environment of agents' commands."""
    bash = agent_factory.toolset.bash
    return SetupCommand(
        command,
        timeout_s,
        plain_shell(),
        lambda: {**command_environment(bash, context.env), **agent_factory.env, **COMMAND_ENVIRONMENT},
        agent_factory.toolset.jobs.records,
        purpose,
        partial(_confine, agent_factory, purpose),
        context.directory / QUARANTINE,
    )


async def _confine(
    agent_factory: AgentFactory, purpose: str, command: str, tree: Path, bounds: SandboxSettings
) -> CommandConfinement | None:
    """Return the confinement of a command in a worktree: it can change that and the repository's git directory.

    It is no wider than that of the lead's commands, and of the commands of the agent that works there.
    """
    program = f"the {purpose} of the worktree {tree.name}"
    session = agent_factory.toolset.use_sandbox()
    sandbox = session and session.narrowed(narrow(agent_factory.lead_inheritance.sandbox, bounds))
    return await confine_line(sandbox, lead_gate(agent_factory), program, (tree,), command, tree)


CallLead = Callable[..., Awaitable[IpcBody]]
"""Calls the lead's process. Raises the lead's errors, ConnectionError when the lead is gone for good."""


class RemoteCommits(Struct, frozen=True):
    """The commits of a member on another machine: they go to the lead's repository, and the team's come here.

    `record` describes the member's repository as if it were a worktree.
    """

    record: WorktreeRecord
    call_lead: CallLead

    async def receive(self) -> None:
        """Fetch the integrated work of the team. Raises WorktreeRefused, CannotStart."""
        git = RepositoryGit.open(self.record.tree)
        ref = f"refs/heads/{self.record.integration_branch}"
        known = await asyncio.to_thread(git.commit_of, ref)
        answer = await self._call(has=known or self.record.base)
        if answer["bundle"]:
            await asyncio.to_thread(fetch_bundle, self.record.tree, b64decode(answer["bundle"]), ref)
        own = str(answer["integrated"])
        if own and await asyncio.to_thread(git.commit_of, own):
            await asyncio.to_thread(git.read, "update-ref", integrated_ref(self.record.branch), own)

    async def send(self, tip: str) -> None:
        """Send the member's commits, before its task is completed. Raises WorktreeRefused, CannotStart."""
        tree = self.record.tree
        ref = f"refs/{self.record.branch}"
        await asyncio.to_thread(RepositoryGit.open(tree).read, "update-ref", ref, tip)
        if bundle := await asyncio.to_thread(bundle_ref, tree, ref, self.record.base):
            await self._call(bundle=b64encode(bundle).decode())

    async def _call(self, has: str = "", bundle: str = "") -> IpcBody:
        try:
            return await self.call_lead("commits", has=has, bundle=bundle)
        except ConnectionError:
            raise WorktreeRefused("worktree-refused", "the lead, whose repository gets the commits, is gone") from None


def exchange_commits(cwd: Path, team: SessionTeam, member: str, has: str, bundle: str) -> IpcBody:
    """Answer a call of RemoteCommits in the lead's process: store the member's commits, and return the team's.

    Raises CannotStart, WorktreeRefused.
    """
    branch = member_branch(team.directory, member)
    if bundle:
        fetch_bundle(cwd, b64decode(bundle), f"refs/{branch}")
    git = RepositoryGit.open(cwd)
    ref = f"refs/heads/{integration_branch(team.name or team.session_list_name)}"
    team_bundle = None
    if re.fullmatch(r"[0-9a-f]{40,64}", has) and git.commit_of(ref):
        team_bundle = bundle_ref(cwd, ref, has)
    return {"bundle": b64encode(team_bundle or b"").decode(), "integrated": git.commit_of(integrated_ref(branch))}


def remote_record(cwd: Path, team: str, directory: str, member: str, session: str) -> WorktreeRecord | None:
    """Return the record of the repository in which a member on another machine works; None without a repository."""
    if not (cwd / ".git").exists():
        return None
    base = RepositoryGit.open(cwd).commit_of(BEGIN)
    branch = member_branch(directory, member)
    return with_identity(WorktreeRecord(str(cwd), str(cwd), branch, base, team, member, session, 0)) if base else None
