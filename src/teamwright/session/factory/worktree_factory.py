"""The worktrees of a session's process, made when the first agent needs one.

Depends on settings and on the worktrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.session.context import SessionContext
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, command_environment
from teamwright.tools.shell.startup import plain_shell
from teamwright.worktrees.session_worktrees import SessionWorktrees
from teamwright.worktrees.setup_command import SetupCommand

if TYPE_CHECKING:
    from teamwright.session.factory.agent_factory import AgentFactory


def make_worktrees(context: SessionContext, agent_factory: AgentFactory) -> SessionWorktrees:
    """Create the worktrees of this process. The team file's setup command has precedence over the setting."""
    settings, definition, bash = context.settings.worktrees, context.definition, agent_factory.toolset.bash
    command = definition.setup if definition is not None and definition.setup else settings.setup
    setup = SetupCommand(
        command or "",
        settings.setup_timeout_s,
        plain_shell(),
        lambda: {**command_environment(bash, context.env), **agent_factory.env, **COMMAND_ENVIRONMENT},
        agent_factory.toolset.jobs.records,
    )
    return SessionWorktrees(
        context.home.worktrees,
        context.cwd,
        context.id,
        agent_factory.emit,
        lambda: agent_factory.policy.scope.trusted_git,
        setup,
    )
