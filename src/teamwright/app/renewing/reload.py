"""Reading a session's configuration again while it runs: instructions, skills, kinds of agents, MCP servers, rules.

All of it is read before anything is changed. A new prefix begins for an agent only when what it is told at birth would
be something else now. Knows the session's ground and its maker; knows no screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from teamwright.agent.agent import Agent
from teamwright.agent.beginning import begin_anew
from teamwright.agent.instructions import Instruction, NestedInstructions, load_instructions
from teamwright.agent.schema import tool_schema
from teamwright.agent.tool import AnyTool
from teamwright.agent.toolbox import offered_tools
from teamwright.app.compacting.making import Compacting
from teamwright.app.ground import Ground, flags_of
from teamwright.app.making.maker import Maker
from teamwright.app.renewing.changes import (
    in_words,
    next_start,
    of_agent_types,
    of_instructions,
    of_rules,
    of_shelves,
)
from teamwright.app.serving.making import servers_of
from teamwright.app.serving.serving import attach
from teamwright.app.settings.merging import load_settings, reads_other_product
from teamwright.app.settings.model import Settings
from teamwright.app.skills.places import shelf_of, shelf_warnings
from teamwright.app.trust.store import Trust, TrustState
from teamwright.mcp.config import ServerConfig
from teamwright.permissions.verdict import Mode
from teamwright.protocol.events import Notice, Reloaded
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.skills.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Reload:
    """What a reading came to: `changed` lines of what is different, whose prefix is new, and settings for later.

    `later` names settings that are different too and hold from the next start on.
    """

    changed: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """Everything as it is on disk now."""

    trust: TrustState
    settings: Settings
    instructions: Sequence[Instruction]
    shelf: Shelf
    servers: Sequence[ServerConfig]
    warnings: Sequence[str]


@dataclass(slots=True)
class Reloading:
    """Reads a session's configuration again. `ground` is as it was read last."""

    ground: Ground
    maker: Maker
    _types: str = ""

    def __post_init__(self) -> None:
        self._types = self.maker.kit.agent_types()

    async def take_over(self, agents: Sequence[Agent]) -> tuple[Reload, Sequence[str]]:
        """Take over what is different, for these agents of this process: at once, or before their next model call.

        Returns what it came to, and what the reading warns of anew. Raises CannotStart (`bad-settings`) and UsageError
        for what cannot be read; nothing is changed then.
        """
        read, maker = self._read(), self.maker
        types = maker.kit.agent_types()
        changed = [*self._changes(read), *of_agent_types(self._types, types)]
        later = next_start(self.ground.settings, read.settings)
        told = of_instructions(maker.instructions, read.instructions)
        await self._exchange(read, agents)
        self._types = types
        members: list[str] = []
        for agent in agents:
            if agent.compaction.tools is None:
                continue
            tools = list(await agent.compaction.tools())
            if told or [tool_schema(tool) for tool in offered_tools(tools)] != agent.toolbox.schemas:
                agent.between_calls(lambda agent=agent, tools=tools: _begin(agent, tools))
                members.append(agent.name)
        return Reload(tuple(changed), tuple(members), tuple(later)), read.warnings

    def tell(self, made: Reload, warnings: Sequence[str]) -> None:
        """Say in events what it came to."""
        for line in warnings:
            self.maker.emit(Notice(member=LEAD, text=line, level="warning"))
        self.maker.emit(Reloaded(member=LEAD, changed=made.changed, members=made.members))

    def _read(self) -> _Read:
        ground = self.ground
        flags = flags_of(ground.options)
        trust = Trust.load(ground.home).verdict(ground.cwd, compat=reads_other_product(ground.home, flags))
        if ground.options.trust:
            trust = trust.along_with(ground.trust)
        settings = load_settings(ground.home, ground.cwd, flags, trust)
        known = load_instructions(ground.cwd, trust.root, ground.home.ours, settings.compat, trust.trusted)
        shelf = shelf_of(settings, ground.home, trust, ground.places.plugins)
        servers, warnings = servers_of(replace(ground, settings=settings, trust=trust), self.maker.kit)
        fresh = [line for line in (*settings.warnings, *warnings, *shelf_warnings(shelf)) if line not in self._known()]
        return _Read(trust, settings, known, shelf, servers, fresh)

    def _known(self) -> Sequence[str]:
        return (*self.ground.settings.warnings, *shelf_warnings(self.maker.kit.shelf))

    def _changes(self, read: _Read) -> list[str]:
        maker, former = self.maker, self.ground.settings
        serving = maker.kit.serving
        before = serving.configs if serving is not None else ()
        at = former.compact.at, read.settings.compact.at
        return [
            *of_instructions(maker.instructions, read.instructions),
            *of_shelves(maker.kit.shelf, read.shelf),
            *in_words("MCP servers", _shown(before), _shown(read.servers)),
            *of_rules(former.rules, read.settings.rules),
            *([f"compact_at: {at[0]} is {at[1]} now"] if at[0] != at[1] else []),
        ]

    async def _exchange(self, read: _Read, agents: Sequence[Agent]) -> None:
        maker, ground = self.maker, self.ground
        former, settings, trust = ground.settings, read.settings, read.trust
        maker.instructions = known = read.instructions
        maker.nested = lambda: (
            NestedInstructions(ground.cwd, trust.root, known, settings.compat, trust.trusted).nested_for
        )
        maker.kit.shelf = read.shelf
        if former.rules != settings.rules:
            for policy in maker.policies:
                if policy.mode is not Mode.BUBBLE:
                    policy.exchange(former.rules, settings.rules)
        maker.compact = settings.compact
        maker.compacting = Compacting(settings.compact, maker.kit, maker.nested)
        for agent in agents:
            agent.compaction.settings = settings.compact
        if maker.kit.serving is not None:
            await maker.kit.serving.exchange(read.servers, settings.mcp)
        kept = replace(former, rules=settings.rules, compact=settings.compact, mcp=settings.mcp)
        kept = replace(kept, skills=settings.skills, skills_off=settings.skills_off, warnings=settings.warnings)
        self.ground = replace(ground, settings=kept, trust=trust)


def _begin(agent: Agent, tools: Sequence[AnyTool]) -> None:
    agent.toolbox.hand(tools)
    attach(agent.toolbox)
    begin_anew(agent, "reload")


def _shown(configs: Sequence[ServerConfig]) -> dict[str, str]:
    return {config.name: repr((config.digest, config.source)) for config in configs}
