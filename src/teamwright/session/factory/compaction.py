"""Fills the ports of an agent's compaction: its settings, what is restated, the prefix that it goes on with.

A new prefix begins with a compaction: the words and tools that an agent of today would be born with. Knows the agent,
its team and the kit; compacts nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from teamwright.agent.agent import Agent
from teamwright.agent.compaction.compaction_state import Compaction, CompactSettings
from teamwright.agent.fork import read_fork_prompt
from teamwright.agent.prefix import shared_parts, store_prefix
from teamwright.agent.tool import AnyTool
from teamwright.models.effort import supported_effort
from teamwright.models.model import Prefix
from teamwright.models.prefix_builder import build_prefix
from teamwright.protocol.messages import Block
from teamwright.protocol.values import dataclass
from teamwright.session.mcp_servers import renew_mcp_tools
from teamwright.session.toolset import Toolset
from teamwright.teams.state_reminder import StateReminder
from teamwright.teams.team import SessionTeam


@dataclass(frozen=True, slots=True)
class CompactionFactory:
    """What the compactions of all agents of a session share. `nested` makes the instructions of deeper directories."""

    settings: CompactSettings
    kit: Toolset
    nested: Callable[[], Callable[[Path], str]] | None = None

    def make(
        self,
        agent: Agent,
        team: SessionTeam | None,
        system: Callable[[], Sequence[Block]],
        prefixes: Path,
        tools: Callable[[], Awaitable[Sequence[AnyTool]]] | None = None,
        *,
        fork: bool = False,
    ) -> Agent:
        """The agent, ready to be compacted. `team` is its team, if any.

        `system` is what its kind's prompt says today, `tools` are those that it would be born with today. A
        `fork` keeps its caller's prefix, and is told once more what it is there for.
        """
        if fork:
            return self._of_fork(agent)
        kit = self.kit

        def fresh() -> Prefix:
            renew_mcp_tools(agent.toolbox)
            card, effort = agent.model.card, supported_effort(agent.model.card, agent.effort)
            words, tools = system(), agent.toolbox
            shared = shared_parts(words, tools)
            made = build_prefix(card, kit.model_settings, words, tools.schemas, effort=effort, shared=shared)
            store_prefix(prefixes, made)
            return made

        beside = StateReminder(agent, team, kit.jobs, kit.agents)
        agent.compaction = Compaction(self.settings, beside, fresh, self._forgotten(agent), tools)
        return agent

    def _of_fork(self, agent: Agent) -> Agent:
        talk = agent.conversation
        beside = StateReminder(agent, None, self.kit.jobs, self.kit.agents, lambda: read_fork_prompt(talk.path))
        agent.compaction = Compaction(self.settings, beside, None, self._forgotten(agent))
        return agent

    def _forgotten(self, agent: Agent) -> Callable[[], None]:
        def forgotten() -> None:
            agent.toolbox.workplace.nested_instructions = self.nested() if self.nested is not None else None

        return forgotten
