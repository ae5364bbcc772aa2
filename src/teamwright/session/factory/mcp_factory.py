"""The construction of a session's MCP servers: their environment, variables and notices.

Depends on settings, trust and the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
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

if TYPE_CHECKING:
    from teamwright.mcp.servers import McpServerPool
    from teamwright.session.factory.agent_factory import AgentFactory


def make_mcp_servers(
    context: SessionContext, log: EventLog, agent_factory: AgentFactory, stack: AsyncExitStack
) -> list[str]:
    """Connect MCP servers to the toolset; return lines about those that are left out. Raises UsageError for a flag.

    No server is started before the first agent is created.
    """
    settings, root, toolset = context.settings, context.trust.root, agent_factory.toolset
    seen = remove_variables(toolset.bash.hidden, context.env)
    variables, withheld = _variables(context, seen)
    configs, warnings = servers_of(context, toolset, agent_factory.work_directory)

    def warn(text: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level="warning"))

    def servers(serving: SessionMcpServers) -> McpServerPool:
        from teamwright.session.factory.mcp_pool import make_pool  # loads the MCP client

        return make_pool(context, log, agent_factory, serving)

    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root)}
    reading = ConfigSource("an agent definition", agent_factory.work_directory, variables, withheld)
    env = {**seen, **settings.env, **COMMAND_ENVIRONMENT, **own}
    toolset.serving = SessionMcpServers(configs, settings.mcp, context.directory, servers, reading, warn, env)
    stack.push_async_callback(toolset.serving.close)
    return warnings


def servers_of(context: SessionContext, toolset: Toolset, cwd: Path) -> tuple[list[ServerConfig], list[str]]:
    """Return the configured servers of a session, and lines about those left out. Raises UsageError.

    `cwd` is the directory in which the session's agents work.
    """
    settings, options = context.settings, context.options
    variables, withheld = _variables(context, remove_variables(toolset.bash.hidden, context.env))
    said = settings.mcp if not options.strict_mcp_config else type(settings.mcp)()
    configs, warnings = configured_servers(said, options.mcp_config, cwd, variables, withheld)
    for plugin in () if options.strict_mcp_config else context.places.plugins:
        # A plugin belongs to another author: it gets no credential, and its names are under its own prefix.
        project = dict.fromkeys(PROJECT_DIRECTORY, str(context.trust.root))
        own = {**variables, **project, **plugin_variables(plugin, context.home)}
        reading = ConfigSource(f"plugin {plugin.name}", cwd, own, withheld, is_confined=True)
        entries = {f"plugin_{plugin.name}_{name}": entry for name, entry in plugin.servers.items()}
        made, problems = parse_servers(entries, reading)
        configs += made
        warnings += problems
    return configs, warnings


def _variables(context: SessionContext, seen: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the variables that configurations may use, and those that a repository's entries do not get."""
    return {**context.env, **context.settings.env}, frozenset(context.env) - frozenset(seen)
