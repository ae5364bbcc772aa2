"""The queue of a run and what keeps its grants, made of the ground that a session stands on.

Assembly only: decides nothing by itself.
"""

from __future__ import annotations

from teamwright.approvals.permanent_grants import SettingsFiles
from teamwright.approvals.request_files import RequestFiles
from teamwright.approvals.request_queue import RequestQueue
from teamwright.session.context import SessionContext, waits_for_answers
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.session.grants import Grants
from teamwright.storage.event_log import EventLog
from teamwright.storage.watcher import Watcher

ASK_TIMEOUT_S = 600.0
"""How long a request waits where nobody is at a terminal, unless the settings say otherwise."""


def make_request_queue(ground: SessionContext, log: EventLog, watcher: Watcher) -> RequestQueue:
    """The one queue of the run, and where its files lie."""
    options = ground.options
    files = RequestFiles(ground.directory, ground.id, watch=watcher.follow)
    made = RequestQueue(log.emit, lambda: options.interactive, files, ask_timeout(ground), options.on_request)
    made.answerer = "terminal" if options.interactive else "program"
    made.settings = ground.home.settings
    made.waits = waits_for_answers(ground)
    return made


def make_grants(ground: SessionContext, log: EventLog, maker: AgentFactory) -> Grants:
    """What people grant along with a yes is kept for the session, and where they say so for good."""
    made = Grants(SettingsFiles(ground.home, ground.trust.root), log.emit, lambda: tuple(maker.policies))
    maker.grant, maker.policies.lead_answers = made, ground.settings.lead_answers
    return made


def ask_timeout(ground: SessionContext) -> float | None:
    """A person at a terminal may take any time; elsewhere a request has a deadline."""
    said = ground.options.ask_timeout_s
    given = said if said is not None else ground.settings.ask_timeout_s
    return given if given is not None or ground.options.interactive else ASK_TIMEOUT_S
