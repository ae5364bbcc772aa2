"""The setup of member processes in the lead's process: backends, socket and services.

Nothing listens, and no program is looked for, before a member uses a backend.
"""

from __future__ import annotations

from teamwright.agent.permission_gate import KeepGrant
from teamwright.session.context import SessionContext
from teamwright.session.external_programs import ExternalPrograms
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.session.member_process.backend_choice import BackendChoice
from teamwright.session.member_process.launcher import MemberLauncher
from teamwright.session.member_process.lead_services import LeadServices
from teamwright.session.member_process.spawn_file import VARIABLE
from teamwright.storage.event_log import EventLog
from teamwright.teams.backends.process_hub import ProcessHub
from teamwright.teams.backends.process_launcher import ProcessLauncher
from teamwright.teams.external.external_launcher import CombinedLauncher, ExternalLauncher, WatchFile
from teamwright.teams.team import SessionTeam

MEMBERS = "members"
"""The directory in the session's for the output of members without a terminal."""

WIRE = "wire"
"""The socket in the session's directory to which member processes connect."""


async def enable_member_processes(
    ground: SessionContext, team: SessionTeam, maker: AgentFactory, log: EventLog, grant: KeepGrant, watch: WatchFile
) -> ProcessHub:
    """Let members of this team live in processes of their own. `watch` calls back when a file changes.

    Raises CannotStart, UsageError when a backend was named that cannot be used here.
    """
    policy = maker.policy
    helping = LeadServices(maker, maker.asker, log.has_listeners, grant, policy.rules)
    exchange = ProcessHub(team, ground.directory / WIRE, helping)
    maker.limits.running_elsewhere = helping.agents_beside
    exchange.translate, exchange.is_watched = helping.translate, log.has_listeners
    log.on_listeners_change = exchange.set_watched
    at_terminal = ground.options.interactive
    places = BackendChoice(ground.env, ground.settings.places, logs=ground.directory / MEMBERS, at_terminal=at_terminal)
    if maker.kit.teams and not ground.resumed:  # members of a resumed team continue in the lead's process
        await places.require_named()
    ours = ProcessLauncher(team, MemberLauncher(ground, team, places, exchange.path), exchange)
    hidden = (*maker.kit.bash.hidden, VARIABLE)
    team.launcher = CombinedLauncher(
        ours, ExternalLauncher(team, ExternalPrograms(ground, team, places, hidden), watch)
    )
    log.subscribe(lambda _number, event: exchange.forward(event), live=False)
    policy.on_change = lambda: exchange.broadcast("policy", policy=helping.policy())
    return exchange
