"""The setup of member processes in the lead's process: backends, socket and services.

They are prepared with the first member that is spawned or resumed. Nothing listens, and no program is looked for,
before a member uses a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.backends.choice import AUTO
from teamwright.protocol.members import IN_PROCESS

if TYPE_CHECKING:
    from teamwright.backends.connections import MemberConnections
    from teamwright.backends.session_backends import BackendChoice
    from teamwright.external.external_launcher import CombinedLauncher
    from teamwright.permissions.rules import Rule
    from teamwright.session.agents.factory import AgentFactory
    from teamwright.session.preparation import SessionContext
    from teamwright.storage.event_log import EventLog
    from teamwright.storage.file_watcher import Watcher
    from teamwright.teams.backend import Backend
    from teamwright.teams.team import SessionTeam

MEMBERS = "members"
"""The directory in the session's for the output of members without a terminal."""

WIRE = "wire"
"""The socket in the session's directory to which member processes connect."""


class MemberProcesses(Struct):
    """The member processes of a session and their launcher (the port of `teams`), prepared at its first use.

    `watcher` reports mail to external members. `settings_rules` are the rules of the session's policy at its start,
    which member processes load from settings. `calls_left_open` returns the calls that never ran, by agent and id,
    because their request was left open.
    """

    context: SessionContext
    agent_factory: AgentFactory
    log: EventLog
    watcher: Watcher
    settings_rules: tuple[Rule, ...]
    calls_left_open: Callable[[], list[tuple[str, str]]]
    _backends: BackendChoice | None = None
    _hub: MemberConnections | None = None
    _launcher: CombinedLauncher | None = None

    def launcher_for(self, team: SessionTeam) -> CombinedLauncher:
        """Return the launcher of our processes and of external programs, connected to the team of the session once."""
        if self._launcher is None:
            self._launcher = self._connect(team)
        return self._launcher

    def _connect(self, team: SessionTeam) -> CombinedLauncher:
        from teamwright.backends.connections import FORWARDED_EVENTS, MemberConnections
        from teamwright.backends.process_launcher import ProcessLauncher
        from teamwright.external.external_launcher import CombinedLauncher, ExternalLauncher
        from teamwright.sandbox.policy import narrow
        from teamwright.session.spawn_file import VARIABLE
        from teamwright.session.wiring.backends import ExternalPrograms
        from teamwright.session.wiring.lead_services import LeadServices
        from teamwright.session.wiring.member_launcher import MemberLauncher

        context = self.context
        agent_factory = self.agent_factory
        log = self.log
        policy = agent_factory.policy
        # A member on another machine has other settings: it receives every rule.
        rules = self.settings_rules if context.options.stores is None else ()
        services = LeadServices(agent_factory, log.has_listeners, rules, self.calls_left_open)
        watched = log.has_listeners
        path = context.directory / WIRE
        hub = self._hub = MemberConnections(team, path, services, is_watched=watched, translate=services.translate)
        log.follow_listeners(hub.set_watched)
        log.subscribe(lambda _number, event: hub.forward(event), kinds=FORWARDED_EVENTS)
        policy.follow(lambda: hub.broadcast("policy", policy=services.policy()))
        bounds = narrow(context.settings.sandbox, agent_factory.lead_inheritance.sandbox)
        tree = agent_factory.worktree.record.path if agent_factory.worktree is not None else ""
        ours = ProcessLauncher(team, MemberLauncher(context, team, self.backends, hub.path, bounds, tree), hub)
        programs = ExternalPrograms(context, team, self.backends, (*agent_factory.toolset.bash.hidden, VARIABLE))
        return CombinedLauncher(ours, ExternalLauncher(team, programs, self.watcher))

    @property
    def backends(self) -> BackendChoice:
        """The choice of backends of this session."""
        if self._backends is None:
            from teamwright.backends.session_backends import BackendChoice

            context = self.context
            logs = context.directory / MEMBERS
            at_terminal = context.options.interactive
            self._backends = BackendChoice(
                context.env,
                context.settings.places,
                logs=logs,
                at_terminal=at_terminal,
                make_remote=self._make_remote if context.options.stores is not None else None,
            )
        return self._backends

    def _make_remote(self, label: str) -> Backend:
        """Return the backend of the workers with this label, for the session's database."""
        from teamwright.session.database_session import make_remote_backend

        return make_remote_backend(self.context, label, self.context.directory / WIRE)

    async def close(self) -> None:
        """Stop listening; connected processes stay reachable. Remove the socket of a killed lead too."""
        if self._hub is not None:
            await self._hub.close()
        else:
            with suppress(OSError):
                (self.context.directory / WIRE).unlink()

    async def require_backends(self) -> None:
        """Check the backend that the settings name. Raises CannotStart, UsageError when it cannot be used here."""
        context = self.context
        named = context.settings.places.backend not in {AUTO, IN_PROCESS}
        # A resumed team continues in the lead's process.
        if named and self.agent_factory.toolset.teams and not context.resumed:
            await self.backends.preview()
