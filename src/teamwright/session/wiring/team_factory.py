"""The team of a process of a session: its stores, the checks of tasks, and the work of members in worktrees.

The session's own process and its member processes create it alike. Depends on the agent factory and the settings.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.review import Reviewer
from teamwright.protocol.secret_texts import find_secrets
from teamwright.session.agents.agent_factory import AgentFactory
from teamwright.session.platform_check import mask_secrets
from teamwright.session.session_preparation import SessionContext
from teamwright.session.wiring.member_worktrees import TeamWorktrees
from teamwright.session.wiring.task_checks import AllowedCommands, FindTeammate, TaskChecks
from teamwright.storage.event_log import EventLog
from teamwright.storage.event_log_reader import log_path
from teamwright.storage.file_lease import lease_path
from teamwright.subagents.registry import Subagents
from teamwright.team_records.home_stores import HomeStores
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.external_members import ExternalParticipants
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_ports import TeamPorts
from teamwright.teams.team_settings import TeamSettings
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, command_environment

if TYPE_CHECKING:
    from teamwright.session.wiring.remote_commits import RemoteCommits

ALLOWED_CHECKS = "checks.json"
"""The file in the session's directory with the commands that were allowed as checks."""


def _task_checks(context: SessionContext, agent_factory: AgentFactory, find: FindTeammate) -> TaskChecks:
    """Create the task checks of this session. `find` returns a live member of this process by its name.

    The team file has precedence over the setting.
    """
    settings, definition = context.settings.check, context.definition
    if definition is not None and definition.check:
        settings = replace(settings, command=definition.check)
    bash = agent_factory.toolset.bash
    return TaskChecks(
        find,
        agent_factory.work_directory,
        settings,
        AllowedCommands(context.home.session(context.cwd, context.id) / ALLOWED_CHECKS),
        agent_factory.policy,
        lambda: {**command_environment(bash, context.env), **agent_factory.env, **COMMAND_ENVIRONMENT},
        agent_factory.toolset.jobs,
        agent_factory.emit,
        lambda command: mask_secrets(command, context.env),
        context.directory / "output",
        agent_factory.toolset.use_sandbox,
        agent_factory.approver,
        lambda: agent_factory.first.sandbox,
    )


def _team_settings(context: SessionContext) -> TeamSettings:
    """Return the settings of the team, with the review of the team file."""
    definition = context.definition
    review = Reviewer(definition.review) if definition is not None and definition.review else None
    return replace(context.settings.team, review=review)


class JoinedTeam(Struct, frozen=True):
    """The team of another process that a member of this process joins. `lead_model` is empty when it is unknown."""

    name: str
    directory: str
    lead_model: str = ""
    led_externally: bool = False
    stores: HomeStores | None = None
    """The stores of the team; None: those of the home."""
    commits: RemoteCommits | None = None
    """The commits of the member of this process, if its lead is on another machine."""


def make_team(
    context: SessionContext,
    log: EventLog,
    agent_factory: AgentFactory,
    status: TeamStatus,
    ports: TeamPorts,
    joined: JoinedTeam | None = None,
) -> SessionTeam:
    """Create the team of this process, without members, and the sub-agents of its agents.

    `status` are the states of its members, `joined` the team that another process leads and guards against ping-pong.
    """
    settings, toolset = context.settings, agent_factory.toolset
    toolset.set_agents(
        Subagents(context.directory, agent_factory, toolset.jobs, agent_factory.limits, log.emit, settings.agents)
    )
    joined = joined or JoinedTeam("", "")
    files, shared_list = HomeStores(context.home), ""
    stores = joined.stores or context.options.stores or files
    if (task_list := context.options.task_list) is not None:
        from teamwright.tasks.shared_list import list_name

        shared_list = list_name(task_list)
        files.share_tasks(shared_list)
    team = SessionTeam(
        context.home,
        stores,
        context.id,
        context.cwd,
        log.emit,
        agent_factory,
        agent_factory.limits,
        replace(_team_settings(context), ping_pong=sys.maxsize) if joined.directory else _team_settings(context),
        lead_model=joined.lead_model,
        lead_policy=agent_factory.policy,
        lease=str(lease_path(context.directory)),
        log=str(log_path(context.directory)),
        name=joined.name,
        directory=joined.directory,
        status=status,
        external=ExternalParticipants(shared_list, led_externally=joined.led_externally),
        ports=ports,
        check=_task_checks(context, agent_factory, lambda name: team.find_in_process(name)),
        work=TeamWorktrees(context, agent_factory, joined.commits),
        output=context.directory / "output",
        secrets=find_secrets(context.env),
        subagents=toolset.agents,
    )
    return team
