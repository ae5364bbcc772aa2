"""The construction of the pool of a session's MCP servers, imported with the first server.

Depends on the MCP client, the sandbox and the models of the session.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright import __version__
from teamwright.config.plugins import DATA, plugin_variables
from teamwright.mcp.listing_store import ListingStore
from teamwright.mcp.login_store import LoginStore
from teamwright.mcp.server import ServerContext, ServerTimeouts
from teamwright.mcp.server_config import ServerConfig
from teamwright.mcp.session_servers import McpServerPool
from teamwright.mcp.stdio_transport import ServerEnvironment
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.sandbox.policy import narrow
from teamwright.session.agents.toolset import Toolset
from teamwright.session.mcp_requests import SamplingTerms, ServerRequests
from teamwright.session.mcp_servers import SessionMcpServers
from teamwright.session.preparation import SessionContext
from teamwright.session.wiring.program_confinement import confine_work, lead_gate
from teamwright.storage.event_log import EventLog
from teamwright.storage.paths import make_private
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT
from teamwright.tools.shell.command_guards import QUARANTINE

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import CommandConfinement
    from teamwright.session.agents.factory import AgentFactory

LOGS = "mcp"
"""Name of the directory in a session's directory with the stderr output of servers."""


def make_pool(
    context: SessionContext, log: EventLog, agent_factory: AgentFactory, serving: SessionMcpServers
) -> McpServerPool:
    """Return the pool of the servers of a session, which starts none of them."""
    settings = context.settings.mcp
    toolset = agent_factory.toolset
    terms = SamplingTerms(
        lambda: agent_factory.models.open(None, LEAD),
        toolset.model_settings,
        agent_factory.budget_tracker,
        log.emit,
        settings.sampling_calls,
    )
    logs: Path = context.directory / LOGS
    make_private(logs)

    def report(text: str, level: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level=level))

    environment = ServerEnvironment(
        serving.env,
        toolset.jobs.records,
        logs,
        partial(_confine, context, agent_factory),
        context.directory / QUARANTINE,
        {**context.settings.person_env, **COMMAND_ENVIRONMENT},
    )
    answers = ServerRequests(
        lambda: agent_factory.policy.directories,
        agent_factory.approver,
        terms if settings.sampling else None,
        toolset.hooking.fire_for_lead,
    )
    around = ServerContext(
        environment,
        ListingStore(context.home.mcp_listings),
        report,
        __version__,
        ServerTimeouts(settings.start_s, settings.call_s),
        before_start=partial(_prepare_start, toolset),
        on_change=serving.note,
        exchange=context.options.client_mcp,
        logins=LoginStore(context.home.mcp_logins),
        requests=answers,
    )
    return McpServerPool(around)


async def _prepare_start(toolset: Toolset, config: ServerConfig) -> None:
    """Wait for what precedes the start of a server: the end of an earlier run's processes, and the proxy."""
    await toolset.jobs.wait_for_orphan_cleanup()
    sandbox = toolset.use_sandbox() if config.is_confined else None
    if sandbox is not None and not sandbox.is_off:
        from teamwright.session.wiring.program_confinement import work_request

        await sandbox.open_network(work_request(()))


def _confine(context: SessionContext, agent_factory: AgentFactory, config: ServerConfig) -> CommandConfinement | None:
    """Return the confinement of a server of a repository or a plugin, which gets no credentials by its name.

    It is no wider than the commands of the lead, and of the agents whose type defines the server. In a worktree it
    changes only that. A plugin's server may change the plugin's data.
    """
    session = agent_factory.toolset.use_sandbox()
    policy = agent_factory.policy
    if session is None:
        return None
    sandbox = session.narrowed(narrow(agent_factory.lead_inheritance.sandbox, config.bounds))
    project = () if agent_factory.worktree is not None else (context.trust.root,)
    roots = (*project, *policy.scope.directories) if config.worktree is None else (config.worktree,)
    plugins = {f"plugin {plugin.name}": plugin for plugin in context.places.plugins}
    if (plugin := plugins.get(config.source)) is not None:
        data = Path(plugin_variables(plugin, context.home)[DATA])
        make_private(data)
        roots = (*roots, data)
    return confine_work(sandbox, lead_gate(agent_factory), f"the MCP server {config.name}", roots)
