"""The builder of teammates, sub-agents and forks: one port of `teams` and one of `subagents`.

The module of each kind loads with its first agent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.protocol.events import Emit
from teamwright.sandbox.policy import narrow
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.model_sources import require_tools
from teamwright.team_records.spawn_spec import PROGRAM_DEFAULT_MODEL, PreparedAgent, SpawnSpec

if TYPE_CHECKING:
    from teamwright.agent.agent import Agent
    from teamwright.subagents.subagent_run import SubagentRun
    from teamwright.team_records.team_state import Incarnation
    from teamwright.teams.team import SessionTeam


class SessionAgentBuilder(Struct, frozen=True):
    """Builds the agents of a process from the parts and the steps of its factory."""

    factory: AgentFactory

    async def prepare(self, spec: SpawnSpec) -> PreparedAgent:
        """Complete the spec of a teammate by its role and agent type, and check that it can start.

        Raises UsageError for an agent type that is unknown or cannot be honoured and for an unsupported effort,
        CannotStart for a model that is not available or does not call tools.
        """
        resolver = self.factory.resolver
        lead = self.factory.lead_inheritance
        spec = resolver.resolve(spec)
        if spec.command:
            return PreparedAgent(spec, spec.model or PROGRAM_DEFAULT_MODEL)
        kind = resolver.definition(spec)
        card = (await self.factory.open_model(spec.model, spec.name, spec.budget, spec)).card
        require_tools(card)
        resolver.resolve_effort(spec, kind, card, lead.effort)
        return PreparedAgent(spec, card.name, narrow(lead.sandbox, kind.sandbox))

    async def build_teammate(self, spec: SpawnSpec, team: SessionTeam, incarnation: Incarnation) -> Agent:
        """Build a teammate: new, or with the transcript of its incarnation. Raises TeamwrightError."""
        from teamwright.session.agents.teammate_build import build_teammate

        return await build_teammate(self.factory, spec, team, incarnation)

    def resolve(self, spec: SpawnSpec) -> SpawnSpec:
        """Return the spec of a sub-agent completed by its agent type; a resolved spec unchanged.

        Raises UsageError for an agent type that is unknown or cannot be honoured.
        """
        return self.factory.resolver.resolve(spec)

    async def build_subagent(
        self, spec: SpawnSpec, caller: str, run: SubagentRun, emit: Emit, *, resumed: bool = False
    ) -> Agent:
        """Build a sub-agent or a fork: new, or with its whole conversation. Raises TeamwrightError."""
        from teamwright.session.agents.subagent_build import build_subagent

        return await build_subagent(self.factory, spec, caller, run, emit, resumed=resumed)

    async def end_subagent(self, run: SubagentRun) -> None:
        """Remove the worktree of an ended sub-agent, or tell its caller where its work is."""
        path = run.spec_fields.get("worktree")
        if not path:
            return
        await self.factory.toolset.serving.leave_worktree(Path(os.path.realpath(str(path))))
        if notice := await self.factory.worktrees.end(Path(str(path))):
            run.add_text(notice)

    def transcript_path(self, id: str) -> Path:
        """Return the path of a sub-agent's transcript."""
        return self.factory.transcript_path(id)
