"""The construction of a run's request queue and grants from its context."""

from __future__ import annotations

from collections.abc import Callable

from teamwright.approvals.request_files import RequestFiles
from teamwright.approvals.request_queue import RequestQueue
from teamwright.config.settings.writable_files import SettingsFiles
from teamwright.session.context import SessionContext, waits_for_answers
from teamwright.session.factory.agent_policies import AgentPolicies
from teamwright.session.grants import Grants
from teamwright.session.modes import SessionModes
from teamwright.storage.event_log import EventLog
from teamwright.storage.file_watcher import Watcher

ASK_TIMEOUT_S = 600.0
"""Seconds that a request waits without a person at a terminal, unless the settings say otherwise."""


def make_request_queue(context: SessionContext, log: EventLog, watcher: Watcher) -> RequestQueue:
    """Create the request queue of the run, with its files."""
    options = context.options
    files = RequestFiles(context.directory, context.id, watch=watcher.follow)
    return RequestQueue(
        log.emit,
        lambda: options.interactive,
        files,
        ask_timeout(context),
        options.on_request,
        answerer="terminal" if options.interactive else "program",
        waits=waits_for_answers(context),
        settings=context.home.settings,
    )


def make_grants(
    context: SessionContext, log: EventLog, policies: AgentPolicies, modes: Callable[[], SessionModes]
) -> Grants:
    """Create the grants of the session, which are saved permanently where the approver says so.

    `modes` returns the modes of the session.
    """
    return Grants(SettingsFiles(context.home, context.trust.root), log.emit, policies, modes)


def ask_timeout(context: SessionContext) -> float | None:
    """Return the deadline of requests in seconds; None for a person at a terminal, who may take any time."""
    said = context.options.ask_timeout_s
    given = said if said is not None else context.settings.ask_timeout_s
    return given if given is not None or context.options.interactive else ASK_TIMEOUT_S
