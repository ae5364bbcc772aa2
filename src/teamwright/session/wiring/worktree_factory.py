"""The worktrees of a session's process and the integration of their branches, made when the first agent needs one.

Depends on settings and on the worktrees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.sandbox.policy import SandboxSettings, narrow
from teamwright.session.session_preparation import SessionContext
from teamwright.session.wiring.work_confinement import confine_line, lead_gate
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, command_environment
from teamwright.tools.shell.command_guards import QUARANTINE
from teamwright.tools.shell.startup import plain_shell
from teamwright.worktrees.branch_merge import MergeStrategy
from teamwright.worktrees.commit_limits import MEGABYTE, CommitLimits
from teamwright.worktrees.finished_work import COMMIT_WITH_HOOKS, MemberWorktree
from teamwright.worktrees.integration import Integration
from teamwright.worktrees.integration_store import IntegrationEntry
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.session_worktrees import SessionWorktrees
from teamwright.worktrees.setup_command import SetupCommand
from teamwright.worktrees.worktree_record import WorktreeRecord

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import CommandConfinement
    from teamwright.session.agents.agent_factory import AgentFactory
    from teamwright.teams.team import SessionTeam


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
    )


def make_member_worktree(
    context: SessionContext, agent_factory: AgentFactory, record: WorktreeRecord
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
    settings, name = context.settings.worktrees, team.name or team.session_list_name
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
    program, session = f"the {purpose} of the worktree {tree.name}", agent_factory.toolset.use_sandbox()
    sandbox = session and session.narrowed(narrow(agent_factory.first.sandbox, bounds))
    return await confine_line(sandbox, lead_gate(agent_factory), program, (tree,), command, tree)
