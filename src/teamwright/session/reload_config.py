"""Reloading a session's configuration while it runs: instructions, skills, agent types, MCP servers and rules.

Everything is read before anything is changed. An agent gets a new prefix only when its initial instructions would
differ. The changes are shown to people as lines. Depends on the session's context and agent factory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.instructions import Instruction, SessionInstructions
from teamwright.agent.prompt import switch_prefix
from teamwright.agent.tool import AnyTool, tool_schema
from teamwright.agent.toolbox import offered_tools
from teamwright.config.settings.merge import load_settings, reads_other_product
from teamwright.config.settings.settings import Settings
from teamwright.config.trust import TrustState, TrustStore
from teamwright.config.trusted_skills import make_shelf, shelf_warnings
from teamwright.mcp.server_config import ServerConfig
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Mode
from teamwright.protocol.events import Notice, Reloaded
from teamwright.protocol.ids import LEAD
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.factory_parts import CompactionFactory
from teamwright.session.preparation import SessionContext, settings_flags
from teamwright.session.wiring.mcp_factory import servers_of
from teamwright.skills.skill_catalog import SkillCatalog


class ReloadResult(Struct, frozen=True):
    """The result of a reload: `changed` lines of differences, agents with a new prefix, and settings for later.

    `later` names changed settings that take effect at the next start.
    """

    changed: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


class _Configuration(Struct, frozen=True):
    """The configuration that is on disk now."""

    trust: TrustState
    settings: Settings
    instructions: SessionInstructions
    shelf: SkillCatalog
    servers: Sequence[ServerConfig]
    warnings: Sequence[str]


class ConfigReloader(Struct):
    """The reloader of a session's configuration. `context` is the context of the last reading."""

    context: SessionContext
    agent_factory: AgentFactory
    _types: str = ""

    def __post_init__(self) -> None:
        self._types = self.agent_factory.toolset.agent_types()

    async def apply(self, agents: Sequence[Agent]) -> tuple[ReloadResult, Sequence[str]]:
        """Apply the differences to these agents of this process: at once, or before their next model call.

        Returns the result, and new warnings. Raises CannotStart (`bad-settings`) and UsageError for a configuration
        that cannot be read; then nothing is changed.
        """
        read = self._read()
        agent_factory = self.agent_factory
        types = agent_factory.toolset.agent_types()
        changed = [*self._changes(read), *agent_type_changes(self._types, types)]
        later = changes_at_next_start(self.context.settings, read.settings)
        changed_instructions = instruction_changes(agent_factory.instructions.initial, read.instructions.initial)
        await self._exchange(read, agents)
        self._types = types
        members: list[str] = []
        for agent in agents:
            if agent.compaction.make_tools is None:
                continue
            tools = list(await agent.compaction.make_tools(agent.model.card))
            if changed_instructions or [tool_schema(tool) for tool in offered_tools(tools)] != agent.toolbox.schemas:
                agent.change_between_calls(lambda agent=agent, tools=tools: _begin(agent, tools))
                members.append(agent.name)
        return ReloadResult(tuple(changed), tuple(members), tuple(later)), read.warnings

    def notify(self, result: ReloadResult, warnings: Sequence[str]) -> None:
        """Emit events about the result."""
        for line in warnings:
            self.agent_factory.emit(Notice(member=LEAD, text=line, level="warning"))
        self.agent_factory.emit(Reloaded(member=LEAD, changed=result.changed, members=result.members))

    def _read(self) -> _Configuration:
        context = self.context
        flags = settings_flags(context.options)
        compat = reads_other_product(context.home, flags)
        trust = TrustStore.load(context.home).verdict(context.cwd, compat=compat, project=context.trust.project)
        if context.options.trust:
            trust = trust.along_with(context.trust)
        settings = load_settings(context.home, context.cwd, flags, trust)
        tree = self.agent_factory.worktree
        cwd = self.agent_factory.work_directory
        root = trust.root if tree is None else tree.scope.tree
        known = SessionInstructions.load(cwd, root, context.home.own, settings.compat, trust.trusted_texts)
        shelf = make_shelf(settings, context.home, trust, context.places.plugins, context.id)
        servers, warnings = servers_of(
            replace(context, settings=settings, trust=trust), self.agent_factory.toolset.bash, cwd
        )
        former = (*context.settings.warnings, *shelf_warnings(self.agent_factory.toolset.shelf))
        fresh = [line for line in (*settings.warnings, *warnings, *shelf_warnings(shelf)) if line not in former]
        return _Configuration(trust, settings, known, shelf, servers, fresh)

    def _changes(self, read: _Configuration) -> list[str]:
        agent_factory = self.agent_factory
        former = self.context.settings
        serving = agent_factory.toolset.serving
        before = serving.configs
        at = former.compact.at, read.settings.compact.at
        return [
            *instruction_changes(agent_factory.instructions.initial, read.instructions.initial),
            *skill_changes(agent_factory.toolset.shelf, read.shelf),
            *describe_change("MCP servers", _server_digests(before), _server_digests(read.servers)),
            *rule_changes(former.rules, read.settings.rules),
            *([f"compact_at: {at[0]} is {at[1]} now"] if at[0] != at[1] else []),
        ]

    async def _exchange(self, read: _Configuration, agents: Sequence[Agent]) -> None:
        agent_factory = self.agent_factory
        context = self.context
        former = context.settings
        settings = read.settings
        trust = read.trust
        agent_factory.instructions = read.instructions
        agent_factory.toolset.shelf = read.shelf
        if former.rules != settings.rules:
            for policy in agent_factory.policies:
                if policy.mode is not Mode.BUBBLE:
                    policy.replace_rules(former.rules, settings.rules)
        agent_factory.compact = settings.compact
        agent_factory.compacting = CompactionFactory(settings.compact, agent_factory.toolset)
        for agent in agents:
            agent.compaction.change_settings(settings.compact)
        await agent_factory.toolset.serving.exchange(read.servers, settings.mcp)
        new_settings = replace(former, rules=settings.rules, compact=settings.compact, mcp=settings.mcp)
        new_settings = replace(
            new_settings, skills=settings.skills, skills_off=settings.skills_off, warnings=settings.warnings
        )
        self.context = replace(context, settings=new_settings, trust=trust)


def _begin(agent: Agent, tools: Sequence[AnyTool]) -> None:
    agent.toolbox.set_tools(tools)
    switch_prefix(agent, "reload")
    agent.renew_session_note()


def _server_digests(configs: Sequence[ServerConfig]) -> dict[str, str]:
    return {config.name: repr((config.digest, config.source)) for config in configs}


IN_LIFE = frozenset({"rules", "compact", "mcp", "skills", "skills_off"})
"""Settings that a session applies while it runs."""

_NOT_COMPARED = frozenset(
    {"mode", "delegates", "warnings", "origins", "limits", "plan_approval", "lead_answers", "check"}
)
"""Settings that other commands change at run time, that a team file may have changed, or that have no comparable
value.
"""


def describe_change(what: str, before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> list[str]:
    """Return a line with added (+), removed (-) and changed (~) names; none without a difference."""
    came = [f"+ {name}" for name in after if name not in before]
    went = [f"- {name}" for name in before if name not in after]
    other = [f"~ {name}" for name in after if name in before and before[name] != after[name]]
    return [f"{what}: {', '.join([*came, *went, *other])}"] if came or went or other else []


def instruction_changes(before: Iterable[Instruction], after: Iterable[Instruction]) -> list[str]:
    """Return the changes of files in an agent's initial instructions."""
    return describe_change("instructions", {str(i.path): i.text for i in before}, {str(i.path): i.text for i in after})


def skill_changes(before: SkillCatalog, after: SkillCatalog) -> list[str]:
    """Return the changes of skills and commands, by their headers: their texts are read at each use."""
    lines: list[str] = []
    for kind in ("skill", "command"):
        old, new = ({r.name: repr(r) for r in shelf.callable_skills if r.kind == kind} for shelf in (before, after))
        lines += describe_change(f"{kind}s", old, new)
    return lines


def agent_type_changes(before: str, after: str) -> list[str]:
    """Return the changes of agent types, by the lead's descriptions of them."""
    return describe_change("agent types", _lines_by_type(before), _lines_by_type(after))


def rule_changes(before: Iterable[Rule], after: Iterable[Rule]) -> list[str]:
    """Return the changes of permission rules in settings."""
    old, new = ({f"{rule.verdict} {rule.text}": rule.by_user for rule in rules} for rules in (before, after))
    return describe_change("permissions", old, new)


def changes_at_next_start(before: Settings, after: Settings) -> list[str]:
    """Return the changed settings that take effect at the next start."""
    names = [name for name in Settings.__struct_fields__ if name not in IN_LIFE | _NOT_COMPARED]
    return [name for name in names if _value(before, name) != _value(after, name)]


def _value(settings: Settings, name: str) -> Any:
    return getattr(settings, name)


def _lines_by_type(text: str) -> dict[str, str]:
    lines = [line.removeprefix("- ") for line in text.split("\n") if line.startswith("- ")]
    return {line.partition(": ")[0]: line for line in lines}
