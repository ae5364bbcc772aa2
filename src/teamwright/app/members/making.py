"""Assembly of the lead's side: where members may live, where their processes call, what is done for them.

Knows the parts; decides nothing. Nothing listens, and nothing is looked for, before a member is to live elsewhere.
"""

from __future__ import annotations

from teamwright.agent.gate import Grant
from teamwright.app.ground import Ground
from teamwright.app.making.maker import Maker
from teamwright.app.members.helping import Helping
from teamwright.app.members.housing import Lodging
from teamwright.app.members.places import Places
from teamwright.app.members.spawn_file import VARIABLE
from teamwright.app.strangers.commanding import Commands
from teamwright.storage.log import EventLog
from teamwright.teams.processes.exchange import Exchange
from teamwright.teams.processes.starting import Elsewhere
from teamwright.teams.strangers.starting import Beside, Strangers, Watch
from teamwright.teams.team import Team

MEMBERS = "members"
"""The directory in the session's for the output of members without a terminal."""

WIRE = "wire"
"""The socket in the session's directory where members' processes call."""


async def have_processes(
    ground: Ground, team: Team, maker: Maker, log: EventLog, grant: Grant, watch: Watch
) -> Exchange:
    """Members of this team may live in processes of their own from now on. `watch` calls back when a file changes.

    Raises CannotStart, UsageError when a backend was named that cannot be used here.
    """
    policy = maker.policy
    helping = Helping(maker, maker.asker, log.attended, grant, policy.rules)
    exchange = Exchange(team, ground.directory / WIRE, helping)
    maker.limits.running_beside = helping.agents_beside
    exchange.translate, exchange.attended = helping.translate, log.attended
    log.on_attended = exchange.watched
    at_terminal = ground.options.interactive
    places = Places(ground.env, ground.settings.places, logs=ground.directory / MEMBERS, at_terminal=at_terminal)
    if maker.kit.teams and not ground.resumed:  # members of a resumed team continue in the lead's process
        await places.require_named()
    ours = Elsewhere(team, Lodging(ground, team, places, exchange.path), exchange)
    hidden = (*maker.kit.bash.hidden, VARIABLE)
    team.elsewhere = Beside(ours, Strangers(team, Commands(ground, team, places, hidden), watch))
    log.subscribe(lambda _number, event: exchange.tell(event), live=False)
    policy.on_change = lambda: exchange.tell_all("policy", policy=helping.policy())
    return exchange
