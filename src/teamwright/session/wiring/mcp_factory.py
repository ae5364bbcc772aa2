"""The construction of a session's MCP servers: their environment, variables and notices.

Depends on settings, trust and the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.config.mcp_settings import PROJECT_DIRECTORY, configured_servers
from teamwright.config.plugins import plugin_variables
from teamwright.mcp.server_config import ConfigSource, ServerConfig, parse_servers
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.session.mcp_servers import SessionMcpServers
from teamwright.session.preparation import SessionContext
from teamwright.storage.event_log import EventLog
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, BashSettings, remove_variables

if TYPE_CHECKING:
    from teamwright.mcp.servers import McpServerPool
    from teamwright.session.wiring.hooks_factory import FindFactory


def make_mcp_servers(
    context: SessionContext, log: EventLog, bash: BashSettings, agent_factory: FindFactory
) -> SessionMcpServers:
    """Create the MCP servers of a session. No server is started before the first agent is created.

    A server may ask the model, so that it finds the agent factory when it runs.
    """
    settings, root = context.settings, context.trust.root
    seen = remove_variables(bash.hidden, context.env)
    variables, withheld = _variables(context, seen)

    def warn(text: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level="warning"))

    def servers(serving: SessionMcpServers) -> McpServerPool:
        from teamwright.session.wiring.mcp_pool import make_pool  # loads the MCP client

        return make_pool(context, log, agent_factory(), serving)

    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root)}

    def source() -> ConfigSource:
        return ConfigSource("an agent definition", agent_factory().work_directory, variables, withheld)

    def read() -> tuple[list[ServerConfig], list[str]]:
        return servers_of(context, bash, agent_factory().work_directory)

    env = {**seen, **settings.env, **COMMAND_ENVIRONMENT, **own}
    return SessionMcpServers(settings.mcp, context.directory, servers, read, source, warn, env)


def servers_of(context: SessionContext, bash: BashSettings, cwd: Path) -> tuple[list[ServerConfig], list[str]]:
    """Return the configured servers of a session, and lines about those left out. Raises UsageError.

    `cwd` is the directory in which the session's agents work.
    """
    settings, options = context.settings, context.options
    _, withheld = _variables(context, remove_variables(bash.hidden, context.env))
    mcp_settings = settings.mcp if not options.strict_mcp_config else type(settings.mcp)()
    persons = {**context.env, **settings.person_env}
    configs, warnings = configured_servers(
        mcp_settings, options.mcp_config, cwd, persons, withheld, of_repository=settings.env
    )
    for plugin in () if options.strict_mcp_config else context.places.plugins:
        # A plugin belongs to another author: it gets no credential, and its names are under its own prefix.
        project = dict.fromkeys(PROJECT_DIRECTORY, str(context.trust.root))
        own = {**persons, **project, **plugin_variables(plugin, context.home)}
        reading = ConfigSource(f"plugin {plugin.name}", cwd, own, withheld, is_confined=True)
        entries = {f"plugin_{plugin.name}_{name}": entry for name, entry in plugin.servers.items()}
        parsed_servers, problems = parse_servers(entries, reading)
        configs += parsed_servers
        warnings += problems
    return configs, warnings


def _variables(context: SessionContext, seen: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the variables that configurations may use, and those that a repository's entries do not get."""
    return {**context.env, **context.settings.env}, frozenset(context.env) - frozenset(seen)
