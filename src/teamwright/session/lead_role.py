"""The lead's part in the assembly of its process, as `MemberRole` and `ExternalMemberRole` are that of a member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_confirmation import UsageMarks
from teamwright.config.trust import require_person_for_mode
from teamwright.external.file_changes import TeamWatcher
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import LEAD
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.policies import AgentPolicies, OnAlways
from teamwright.session.control.stop_listener import StopListener
from teamwright.session.modes_and_grants import (
    SavedMode,
    SessionModes,
    load_mode,
    make_grants,
    restore_mode,
    save_mode,
)
from teamwright.session.options import mark_portions
from teamwright.session.preparation import SessionContext
from teamwright.session.wiring.integration import SessionIntegration
from teamwright.session.wiring.member_processes import MemberProcesses
from teamwright.session.wiring.process_assembly import (
    AgentServices,
    make_request_queue,
)
from teamwright.session.wiring.team_factory import make_team, totals_until
from teamwright.storage.event_log import EventLog, Subscriber, log_path, read_recent
from teamwright.storage.file_watcher import Watcher
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.shutdown_deadlines import ShutdownDeadlines
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_ports import TeamPorts


class LeadRole:
    """The lead's part in the assembly of its process. The attributes exist once the method that makes them was called.

    `subscriber` follows the log; `end` ends the process; `current_modes` returns the modes of the session;
    `ask` returns an agent's answer to a question from another terminal.
    """

    member: str = LEAD
    lead_answers: bool | None = None
    is_led_externally: bool = False
    on_always: OnAlways | None = None

    def __init__(
        self,
        context: SessionContext,
        end: Callable[[], None] | None,
        subscriber: Subscriber | None,
        current_modes: Callable[[], SessionModes],
        ask: Callable[[str, str], Awaitable[str]],
    ) -> None:
        self.context = context
        self._end = end
        self._subscriber = subscriber
        self._current_modes = current_modes
        self._ask = ask

    def open_log(self) -> EventLog:
        """Open the session's log, which keeps the states of all members."""
        path = log_path(self.context.directory)
        self._team_status = TeamStatus.from_log(read_recent(path))
        log = EventLog(path, self._team_status)
        if self._subscriber is not None:
            log.subscribe(self._subscriber, live=False)
        return log

    def make_services(self, log: EventLog, watcher: Watcher, policies: AgentPolicies) -> AgentServices:
        """Create the queue of requests, the grants and the budget of the session."""
        context = self.context
        self.requests = requests = make_request_queue(context, log, watcher)
        self.deadlines = ShutdownDeadlines()
        self._grants = grants = make_grants(context, log, policies, self._current_modes)
        portions = mark_portions(context.options, context.settings.run_defaults)
        budget_tracker = BudgetTracker(
            context.options.budget,
            each=context.settings.each,
            earlier=partial(totals_until, log.path, log.last_number),
            assumed=context.options.assumed,
            marks=UsageMarks(portions, requests) if portions else None,
            spent=context.options.spent,
        )
        return AgentServices(
            requests, self.deadlines, grants, budget_tracker, permits=requests, left_open=requests.was_left_open
        )

    def set_mode(self, agent_factory: AgentFactory) -> None:
        """Set the lead's mode: the flag's, else the saved one, else the settings'."""
        context = self.context
        policy = agent_factory.policy
        saved_mode = load_mode(context.directory) if context.resumed else None
        may_bypass = context.options.may_bypass
        require_person_for_mode(context.home, Mode.BYPASS if may_bypass else policy.mode)
        agent_factory.may_bypass = may_bypass or policy.mode is Mode.BYPASS
        agent_factory.mode_untold = saved_mode is not None
        if context.options.permission_mode is not None:
            save_mode(context.directory, SavedMode(policy.display_mode, policy.mode))
        elif saved_mode is not None:
            restore_mode(policy, saved_mode)
        if policy.is_delegating and not agent_factory.toolset.teams:
            raise UsageError("usage", "a lead cannot delegate while teams are switched off", note="nothing was started")

    def make_team(self, log: EventLog, watcher: Watcher, agent_factory: AgentFactory) -> SessionTeam:
        """Create the team, and what watches its files and its processes."""
        context = self.context
        requests = self.requests
        self.processes = MemberProcesses(
            context, agent_factory, log, watcher, agent_factory.policy.rules, requests.calls_left_open
        )
        self.integration = SessionIntegration(context, agent_factory, log)
        ports = TeamPorts(
            agent_factory.plans.watch,
            worktrees=lambda: agent_factory.worktrees,
            work_directory=agent_factory.work_directory,
            launcher_for=self.processes.launcher_for,
            is_integrating=lambda: self.integration.is_working,
            watch_mailbox=lambda name, look: self.files.follow(name, look),
            watch_file=watcher.follow,
            open_doorbell=lambda name, look: self.outside.open_doorbell(name, look),
        )
        team = make_team(context, log, agent_factory, self._team_status, ports)
        self.files = TeamWatcher(team, watcher)
        self.outside = StopListener(
            team, log.emit, watcher, self.deadlines, self._end, on_ring=requests.read_outside_answers, ask=self._ask
        )
        requests.answerers.append(self._grants.answer)  # after the hooks, which the agent factory added
        requests.set_team(team, always=context.settings.lead_answers)
        return team
