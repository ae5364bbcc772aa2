"""The construction of a session's MCP servers: their environment, variables and notices.

Depends on settings, trust and the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.config.mcp_settings import PROJECT_DIRECTORY, configured_servers
from teamwright.config.plugins import plugin_variables
from teamwright.mcp.server_config import ConfigSource, ServerConfig, parse_servers
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.session.mcp_servers import SessionMcpServers
from teamwright.session.session_preparation import SessionContext
from teamwright.session.toolset import Toolset
from teamwright.storage.event_log import EventLog
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, remove_variables
from teamwright.tools.shell.command_guards import QUARANTINE

if TYPE_CHECKING:
    from teamwright.mcp.servers import McpServerPool
    from teamwright.sandbox.sandbox import CommandConfinement
    from teamwright.session.factory.agent_factory import AgentFactory

LOGS = "mcp"
"""Name of the directory in a session's directory with the stderr output of servers."""


def make_mcp_servers(
    context: SessionContext, log: EventLog, agent_factory: AgentFactory, stack: AsyncExitStack
) -> list[str]:
    """Connect MCP servers to the toolset; return lines about those that are left out. Raises UsageError for a flag.

    No server is started before the first agent is created.
    """
    settings, root, toolset = context.settings, context.trust.root, agent_factory.toolset
    seen = remove_variables(toolset.bash.hidden, context.env)
    variables, withheld = _variables(context, seen)
    configs, warnings = servers_of(context, toolset)

    def warn(text: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level="warning"))

    def servers(serving: SessionMcpServers) -> McpServerPool:
        return _servers(context, log, agent_factory, serving)

    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root)}
    reading = ConfigSource("an agent definition", context.cwd, variables, withheld)
    env = {**seen, **settings.env, **COMMAND_ENVIRONMENT, **own}
    toolset.serving = SessionMcpServers(configs, settings.mcp, context.directory, servers, reading, warn, env)
    stack.push_async_callback(toolset.serving.close)
    return warnings


def servers_of(context: SessionContext, toolset: Toolset) -> tuple[list[ServerConfig], list[str]]:
    """Return the configured servers of a session, and lines about those left out. Raises UsageError."""
    settings, options = context.settings, context.options
    variables, withheld = _variables(context, remove_variables(toolset.bash.hidden, context.env))
    said = settings.mcp if not options.strict_mcp_config else type(settings.mcp)()
    configs, warnings = configured_servers(said, options.mcp_config, context.cwd, variables, withheld)
    for plugin in () if options.strict_mcp_config else context.places.plugins:
        # A plugin belongs to another author: it gets no credential, and its names are under its own prefix.
        project = dict.fromkeys(PROJECT_DIRECTORY, str(context.trust.root))
        own = {**variables, **project, **plugin_variables(plugin, context.home)}
        reading = ConfigSource(f"plugin {plugin.name}", context.cwd, own, withheld)
        entries = {f"plugin_{plugin.name}_{name}": entry for name, entry in plugin.servers.items()}
        made, problems = parse_servers(entries, reading)
        configs += made
        warnings += problems
    return configs, warnings


def _variables(context: SessionContext, seen: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the variables that configurations may use, and those that a repository's entries do not get."""
    return {**context.env, **context.settings.env}, frozenset(context.env) - frozenset(seen)


def _servers(
    context: SessionContext, log: EventLog, agent_factory: AgentFactory, serving: SessionMcpServers
) -> McpServerPool:
    from teamwright import __version__
    from teamwright.mcp.listing_store import ListingStore
    from teamwright.mcp.login_store import LoginStore
    from teamwright.mcp.server import ServerContext, ServerTimeouts
    from teamwright.mcp.servers import McpServerPool
    from teamwright.mcp.stdio_transport import ServerEnvironment
    from teamwright.session.server_requests import SamplingTerms, ServerRequests
    from teamwright.storage.paths import make_private

    settings, toolset = context.settings.mcp, agent_factory.toolset
    terms = SamplingTerms(
        lambda: agent_factory.models.open(None, LEAD),
        toolset.model_settings,
        agent_factory.budget_tracker,
        settings.sampling_calls,
    )
    logs: Path = context.directory / LOGS
    make_private(logs)

    def report(text: str, level: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level=level))

    around = ServerContext(
        ServerEnvironment(
            serving.env,
            toolset.jobs.records,
            logs,
            partial(_confine, context, agent_factory),
            context.directory / QUARANTINE,
        ),
        ListingStore(context.home.mcp_listings),
        report,
        __version__,
        ServerTimeouts(settings.start_s, settings.call_s),
        before_start=partial(_prepare_start, toolset),
        on_change=serving.note,
        exchange=context.options.client_mcp,
        logins=LoginStore(context.home.mcp_logins),
        requests=ServerRequests(
            lambda: agent_factory.policy.directories, agent_factory.asker, terms if settings.sampling else None
        ),
    )
    return McpServerPool(around)


async def _prepare_start(toolset: Toolset) -> None:
    """Wait for what precedes the start of a server: the end of an earlier run's processes, and the proxy."""
    await toolset.jobs.wait_for_orphan_cleanup()
    sandbox = toolset.use_sandbox()
    if sandbox is not None and not sandbox.is_off:
        await sandbox.open_network()


def _confine(context: SessionContext, agent_factory: AgentFactory, config: ServerConfig) -> CommandConfinement | None:
    """Return the confinement of a repository's server in the policy *work*. Its hosts are asked about as the lead's.

    It gets no credentials by its name: the repository chose the name.
    """
    from teamwright.agent.permission_gate import PermissionGate
    from teamwright.sandbox.command_policy import ConfinementRequest
    from teamwright.sandbox.policy import PolicyName
    from teamwright.tools.shell.command_confinement import denied_paths

    sandbox = agent_factory.toolset.use_sandbox()
    if sandbox is None:
        return None
    policy = agent_factory.policy
    gate = PermissionGate(LEAD, lambda: agent_factory.policy, agent_factory.asker)
    ask = partial(gate.may_connect, f"the MCP server {config.name}")
    roots = (context.trust.root, *policy.scope.directories)
    denied = denied_paths(policy.excluded_paths("Read", Path(os.sep)), roots)
    return sandbox.confine(ConfinementRequest(PolicyName.WORK, roots, denied=denied, ask_host=ask))
