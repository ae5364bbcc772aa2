"""The ports of an agent's compaction: its settings, the restated facts and the new prefix.

A compaction begins a new prefix, with the system prompt and tools of a newly created agent. Depends on the agent, its
team and the toolset.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.agent.compaction.compaction_state import CompactedAgent, Compaction, CompactSettings
from teamwright.agent.fork_origin import read_fork_prompt
from teamwright.agent.prompt_prefix import shared_parts, store_prefix
from teamwright.agent.tool import AnyTool
from teamwright.models.effort import supported_effort
from teamwright.models.model import Prefix
from teamwright.models.prefix_builder import build_prefix
from teamwright.protocol.messages import Block
from teamwright.session.agents.toolset import Toolset
from teamwright.session.mcp_servers import renew_mcp_tools
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_state_reminder import StateReminder


class CompactionFactory(Struct, frozen=True):
    """The shared parts of all compactions of a session."""

    settings: CompactSettings
    toolset: Toolset

    def make(
        self,
        team: SessionTeam | None,
        system: Callable[[], Sequence[Block]],
        prefixes: Path,
        tools: Callable[[], Awaitable[Sequence[AnyTool]]] | None = None,
    ) -> Compaction:
        """Return the compaction of an agent. `team` is its team, if any.

        `system` returns the present prompt of its agent type, `tools` those of a newly created agent.
        """
        toolset = self.toolset

        def fresh(agent: CompactedAgent) -> Prefix:
            renew_mcp_tools(agent.toolbox)
            card, effort = agent.model.card, supported_effort(agent.model.card, agent.effort)
            words, tools = system(), agent.toolbox
            shared = shared_parts(words, tools.offered_tools)
            prefix = build_prefix(card, toolset.model_settings, words, tools.schemas, effort=effort, shared=shared)
            store_prefix(prefixes, prefix)
            return prefix

        beside = StateReminder(team, toolset.jobs, toolset.agents)
        return Compaction(self.settings, beside, fresh, tools)

    def make_for_fork(self, transcript: Path) -> Compaction:
        """Return the compaction of a fork, which keeps its caller's prefix and is reminded of its job."""
        beside = StateReminder(None, self.toolset.jobs, self.toolset.agents, lambda: read_fork_prompt(transcript))
        return Compaction(self.settings, beside)
