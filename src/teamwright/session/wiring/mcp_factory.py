"""The construction of a session's MCP servers: their environment, variables and notices.

Depends on settings, trust and the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.agent.agent_type import AgentType
from teamwright.config.agent_types import PLUGIN
from teamwright.config.executed_file_digests import is_of_repository
from teamwright.config.mcp_settings import PROJECT_DIRECTORY, configured_servers, reading_of
from teamwright.config.plugins import Plugin, plugin_variables
from teamwright.mcp.server_config import ConfigSource, ServerConfig, parse_servers
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.session.mcp_servers import SessionMcpServers
from teamwright.session.preparation import SessionContext
from teamwright.storage.event_log import EventLog
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, BashSettings, remove_variables

if TYPE_CHECKING:
    from teamwright.mcp.session_servers import McpServerPool
    from teamwright.session.wiring.hooks_factory import FindFactory

_IN_DEFINITION = "an agent definition"


def make_mcp_servers(
    context: SessionContext, log: EventLog, bash: BashSettings, agent_factory: FindFactory
) -> SessionMcpServers:
    """Create the MCP servers of a session. No server is started before the first agent is created.

    A server may ask the model, so that it finds the agent factory when it runs.
    """
    settings = context.settings
    root = context.trust.root
    seen = remove_variables(bash.hidden, context.env)

    def warn(text: str) -> None:
        log.emit(Notice(member=LEAD, text=text, level="warning"))

    def servers(serving: SessionMcpServers) -> McpServerPool:
        from teamwright.session.wiring.mcp_pool import make_pool  # loads the MCP client

        return make_pool(context, log, agent_factory(), serving)

    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root)}

    def source(kind: AgentType) -> ConfigSource:
        return _source_of(kind, context, bash, agent_factory().work_directory)

    def read() -> tuple[list[ServerConfig], list[str]]:
        return servers_of(context, bash, agent_factory().work_directory)

    env = {**seen, **settings.env, **COMMAND_ENVIRONMENT, **own}
    return SessionMcpServers(settings.mcp, context.directory, servers, read, source, warn, env)


def servers_of(context: SessionContext, bash: BashSettings, cwd: Path) -> tuple[list[ServerConfig], list[str]]:
    """Return the configured servers of a session, and lines about those left out. Raises UsageError.

    `cwd` is the directory in which the session's agents work.
    """
    settings = context.settings
    options = context.options
    withheld = _withheld(context, bash)
    mcp_settings = settings.mcp if not options.strict_mcp_config else type(settings.mcp)()
    persons = {**context.env, **settings.person_env}
    configs, warnings = configured_servers(
        mcp_settings, options.mcp_config, cwd, persons, withheld, of_repository=settings.env
    )
    for plugin in () if options.strict_mcp_config else context.places.plugins:
        entries = {f"plugin_{plugin.name}_{name}": entry for name, entry in plugin.servers.items()}
        parsed_servers, problems = parse_servers(entries, _plugin_source(plugin, context, bash, cwd))
        configs += parsed_servers
        warnings += problems
    return configs, warnings


def _source_of(kind: AgentType, context: SessionContext, bash: BashSettings, cwd: Path) -> ConfigSource:
    """Return the rules for reading the servers of an agent definition: as for a server of the repository, of a plugin
    or of the person, whichever the definition belongs to.
    """
    settings = context.settings
    root = context.trust.root
    withheld = _withheld(context, bash)
    plugin = next((one for one in context.places.plugins if kind.source == f"{PLUGIN} {one.name}"), None)
    if plugin is not None:
        return _plugin_source(plugin, context, bash, cwd)
    if is_of_repository(root, kind.file):
        return reading_of(_IN_DEFINITION, root, cwd, {**context.env, **settings.env}, withheld)
    return ConfigSource(_IN_DEFINITION, cwd, {**context.env, **settings.person_env}, withheld)


def _plugin_source(plugin: Plugin, context: SessionContext, bash: BashSettings, cwd: Path) -> ConfigSource:
    """Return the rules for reading a plugin's servers. It belongs to another author, and gets no credential."""
    project = dict.fromkeys(PROJECT_DIRECTORY, str(context.trust.root))
    own = {**context.env, **context.settings.person_env, **project, **plugin_variables(plugin, context.home)}
    return ConfigSource(f"{PLUGIN} {plugin.name}", cwd, own, _withheld(context, bash), is_confined=True)


def _withheld(context: SessionContext, bash: BashSettings) -> frozenset[str]:
    """Return the variables that the entries of others do not get."""
    return frozenset(context.env) - frozenset(remove_variables(bash.hidden, context.env))
