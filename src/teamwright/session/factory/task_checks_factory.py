"""The construction of a session's task checks from its settings, its team file and its commands' environment."""

from __future__ import annotations

from msgspec.structs import replace

from teamwright.session.context import SessionContext
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.session.platform_check import mask_secrets
from teamwright.session.task_checks.allowed_commands import AllowedCommands
from teamwright.session.task_checks.task_checks import FindTeammate, TaskChecks
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, command_environment

ALLOWED = "checks.json"
"""The file in the session's directory with the commands that were allowed as checks."""


def make_task_checks(ground: SessionContext, maker: AgentFactory, find: FindTeammate) -> TaskChecks:
    """Create the task checks of this session. `find` returns a live member of this process by its name.

    The team file has precedence over the setting.
    """
    settings, definition = ground.settings.check, ground.definition
    if definition is not None and definition.check:
        settings = replace(settings, command=definition.check)
    bash = maker.kit.bash
    return TaskChecks(
        find,
        ground.cwd,
        settings,
        AllowedCommands(ground.home.session(ground.cwd, ground.id) / ALLOWED),
        maker.policy,
        lambda: {**command_environment(bash, ground.env), **maker.env, **COMMAND_ENVIRONMENT},
        maker.kit.jobs,
        maker.emit,
        lambda command: mask_secrets(command, ground.env),
    )
