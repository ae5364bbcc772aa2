"""The team of a process of a session: its stores, its budget, the checks of tasks, and work in worktrees.

The session's own process and its member processes create it alike. A task check runs as a process group in the owner's
directory, under no lock. Only allowed commands run: by the agent that set the check, by the user for all tasks, or by
the rules of the member that completes the task. Allowed commands are in a file, for a resume and for all processes of
the session; other commands in a task's file are not trusted (docs/reference/formats/tasks.md).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.activity_monitor import NOTIFY_AFTER_S
from teamwright.agent.permission_gate import PermissionGate
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_totals import UsageTotals, usage_events
from teamwright.config.settings.settings import CheckSettings
from teamwright.permissions.verdict import Access, Approver, Mode, Verdict, stricter
from teamwright.processes.process_records import ProcessPurpose
from teamwright.processes.program_environment import proven_variables
from teamwright.protocol.events import Compacted, Emit, Progress, TaskChanged, TaskInfo, TeamChanged, TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.protocol.secret_texts import find_secrets
from teamwright.protocol.task import Reviewer
from teamwright.session.agents.agent_builder import SessionAgentBuilder
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.command_start import mask_secrets
from teamwright.session.preparation import SessionContext
from teamwright.session.wiring.program_confinement import confine_line
from teamwright.session.wiring.worktree_use import TeamWorktrees
from teamwright.storage.event_log import EventLog, log_path
from teamwright.storage.file_lease import lease_path
from teamwright.storage.files import write_atomic
from teamwright.storage.locks import hold_exclusive
from teamwright.subagents.registry import Subagents
from teamwright.tasks.completion_conditions import TaskCheckResult
from teamwright.team_records.home_stores import HomeStores
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.external_members import ExternalParticipants
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_ports import TeamPorts
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, command_environment
from teamwright.tools.shell.shell_choice import is_proven
from teamwright.tools.shell.startup import plain_shell

if TYPE_CHECKING:
    from collections.abc import Generator

    from teamwright.agent.background_jobs import BackgroundJobs
    from teamwright.permissions.permission_decision import Policy
    from teamwright.protocol.task import Task
    from teamwright.sandbox.policy import SandboxSettings
    from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
    from teamwright.session.wiring.worktree_factory import RemoteCommits
    from teamwright.teams.local_teammate import LocalTeammate


class JoinedTeam(Struct, frozen=True):
    """The team of another process that a member of this process joins. `lead_model` is empty when it is unknown."""

    name: str
    directory: str
    lead_model: str = ""
    led_externally: bool = False
    stores: HomeStores | None = None
    """The stores of the team; None: those of the home."""
    commits: RemoteCommits | None = None
    """The commits of the member of this process, if its lead is on another machine."""


def make_team(
    context: SessionContext,
    log: EventLog,
    agent_factory: AgentFactory,
    status: TeamStatus,
    ports: TeamPorts,
    joined: JoinedTeam | None = None,
) -> SessionTeam:
    """Create the team of this process, without members, and the sub-agents of its agents.

    `status` are the states of its members, `joined` the team that another process leads and guards against ping-pong.
    """
    settings = context.settings
    toolset = agent_factory.toolset
    builder = SessionAgentBuilder(agent_factory)
    toolset.set_agents(
        Subagents(context.directory, builder, toolset.jobs, agent_factory.limits, log.emit, settings.agents)
    )
    definition = context.definition
    review = Reviewer(definition.review) if definition is not None and definition.review else None
    team_settings = replace(settings.team, review=review)  # the team file says who reviews
    joined = joined or JoinedTeam("", "")
    if joined.directory:
        team_settings = replace(team_settings, ping_pong=sys.maxsize)
    files = HomeStores(context.home)
    shared_list = ""
    stores = joined.stores or context.options.stores or files
    if (task_list := context.options.task_list) is not None:
        from teamwright.tasks.shared_task_lists import list_name

        shared_list = list_name(task_list)
        files.share_tasks(shared_list)
    team = SessionTeam(
        context.home,
        stores,
        context.id,
        context.cwd,
        log.emit,
        builder,
        agent_factory.limits,
        team_settings,
        lead_model=joined.lead_model,
        lead_policy=agent_factory.policy,
        lease=str(lease_path(context.directory)),
        log=str(log_path(context.directory)),
        name=joined.name,
        directory=joined.directory,
        status=status,
        external=ExternalParticipants(shared_list, led_externally=joined.led_externally),
        ports=ports,
        check=_task_checks(context, agent_factory, lambda name: team.find_in_process(name)),
        work=TeamWorktrees(context, agent_factory, joined.commits),
        output=context.directory / "output",
        secrets=find_secrets(context.env),
        subagents=toolset.agents,
    )
    return team


def _task_checks(context: SessionContext, agent_factory: AgentFactory, find: FindTeammate) -> TaskChecks:
    """Create the task checks of this session. `find` returns a live member of this process by its name.

    The team file has precedence over the setting.
    """
    settings = context.settings.check
    definition = context.definition
    if definition is not None and definition.check:
        settings = replace(settings, command=definition.check)
    bash = agent_factory.toolset.bash
    return TaskChecks(
        find,
        agent_factory.work_directory,
        settings,
        AllowedCommands(context.home.session(context.cwd, context.id) / ALLOWED_CHECKS),
        agent_factory.policy,
        lambda: {**command_environment(bash, context.env), **agent_factory.env, **COMMAND_ENVIRONMENT},
        agent_factory.toolset.jobs,
        agent_factory.emit,
        lambda command: mask_secrets(command, context.env),
        context.directory / "output",
        agent_factory.toolset.use_sandbox,
        agent_factory.approver,
        lambda: agent_factory.lead_inheritance.sandbox,
    )


def totals_until(path: Path, last: int) -> UsageTotals:
    """Return the totals of a log up to that event. Called once, and only for caps of an earlier incarnation."""
    return UsageTotals.from_events(usage_events(path, last))


def connect_budget(budget_tracker: BudgetTracker, team: SessionTeam, log: EventLog) -> None:
    """Connect the budget tracker to the log, and wake members whose caps were raised."""
    kinds = (TaskChanged, TeamChanged, Compacted)
    log.subscribe(lambda _number, event: track_event(budget_tracker, team, event), kinds=kinds)


def track_event(budget_tracker: BudgetTracker, team: SessionTeam, event: TeamEvent) -> None:
    """Update the budget tracker from an event, and wake the member whose caps it raised."""
    owner = budget_tracker.add_event(event)
    if owner and (teammate := team.find(owner)) is not None:
        teammate.note_raised_budget()


async def take_tasks(budget_tracker: BudgetTracker, team: SessionTeam) -> None:
    """Load the owners and caps of tasks from disk at a resume. Raises StorageError."""
    budget_tracker.take_tasks(
        TaskInfo(id=task.id, subject=task.subject, status=str(task.status), owner=task.owner, budget=task.budget)
        for task in await team.tasks.all()
    )


OUTPUT_CHARS = 4_000
"""Maximum characters of a check's output in the result, from its end."""

COMMAND_CHARS = 120
"""Maximum characters of a check in a refusal."""


FindTeammate: TypeAlias = "Callable[[str], LocalTeammate | None]"
"""Returns the live member of that name, if it runs in this process."""


class TaskChecks(Struct):
    """The checks of one session (port of `tasks`). `environment` is that of agents' commands.

    `find` returns a live member of this process, `cwd` is the session's directory. `policy` is the lead's, for agents
    without their own; `mask` masks secrets in commands. `sandbox` returns the session's;
    `scratch` is its directory for outputs. `approver` is asked about hosts. `lead_bounds` are the bounds of the lead's
    commands in the sandbox.
    """

    find: FindTeammate
    cwd: Path
    settings: CheckSettings
    allowed: AllowedCommands
    policy: Policy
    environment: Callable[[], Mapping[str, str]]
    jobs: BackgroundJobs
    emit: Emit
    mask: Callable[[str], str]
    scratch: Path
    sandbox: Callable[[], Sandbox | None]
    approver: Approver
    lead_bounds: Callable[[], SandboxSettings]

    @property
    def search_path(self) -> str:
        return self.environment().get("PATH", "")

    def commands(self, task: Task) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for one in (task.check, self.settings.command) if one))

    def allow(self, command: str, seen_from: Path | None) -> None:
        self.allowed.add(command, seen_from or self.cwd)

    async def run(self, task: Task, commands: tuple[str, ...], by: str) -> TaskCheckResult:
        cwd = self._cwd(task, by)
        if not all(self._may(command, cwd, by) for command in commands):
            return TaskCheckResult(passed=False, was_run=False)
        for command in commands:
            with self._notify_slow(task, by, command):
                checked = await self._one(command, cwd, by, self._roots(task, by))
            if not checked.passed:
                return checked
        return TaskCheckResult(passed=True)

    def _may(self, command: str, cwd: Path, by: str) -> bool:
        """Return True when the command is allowed. A mode that allows every call does not allow another program's
        check.

        A command that was allowed in one directory may reach further from another. Its verdict there must
        not be stricter.
        """
        seen_from = self.allowed.decision_directory(command)
        if command == self.settings.command or seen_from == cwd:
            return True
        policy = self._policy(by)
        path = self.search_path
        now = policy.decide("Bash", Access(command=command, cwd=cwd, search_path=path)).verdict
        if seen_from is not None:
            then = policy.decide("Bash", Access(command=command, cwd=seen_from, search_path=path)).verdict
            return stricter(then, now) is then
        return now is Verdict.ALLOW and policy.display_mode is not Mode.BYPASS

    def _policy(self, by: str) -> Policy:
        """Return the policy of the completing agent; the lead's for one without its own."""
        teammate = self.find(by)
        return (teammate.agent.policy if teammate is not None else None) or self.policy

    async def _confine(self, command: str, cwd: Path, by: str, roots: Sequence[Path]) -> CommandConfinement | None:
        """Return the confinement of a check in the policy *work*; None without a sandbox.

        It is no wider than that of the completing agent's own commands; the lead's for one without its own.
        """
        if (session := self.sandbox()) is None:
            return None
        teammate = self.find(by)
        bounds = self.lead_bounds() if teammate is None else teammate.agent.toolbox.workplace.sandbox
        gate = PermissionGate(by, lambda: self._policy(by), self.approver)
        return await confine_line(session.narrowed(bounds), gate, command, roots, command, cwd)

    async def _one(self, command: str, cwd: Path, by: str, roots: Sequence[Path]) -> TaskCheckResult:
        from teamwright.processes.commands import ProcessCommand, ProcessOutput, run_command

        output = ProcessOutput(OUTPUT_CHARS * 2)
        purpose = ProcessPurpose(by, "check")
        environment = {**self.environment(), "PWD": str(cwd)}
        if is_proven(command, cwd):  # nothing else allowed it, so that it runs as such a line of an agent does
            environment = proven_variables(environment)
        timeout_s = self.settings.timeout_s
        await self.jobs.wait_for_orphan_cleanup()  # no check runs beside processes that an earlier process left
        try:
            confinement = await self._confine(command, cwd, by, roots)
            guard = confinement.guard() if confinement is not None else None
            process_command = ProcessCommand(
                (plain_shell(), "-c", command), cwd, environment, self.jobs.records, purpose, confinement=confinement
            )
            outcome = await run_command(process_command, output, timeout_s=timeout_s, grace_s=self.settings.grace_s)
        except OSError as problem:
            return TaskCheckResult(
                passed=False, reason=f"its check could not be started ({problem.strerror}): {_begin(command)}"
            )
        refused = ""
        if confinement is not None and guard is not None:
            from teamwright.tools.shell.command_confinement import find_refusals

            _, refused = find_refusals(confinement, guard, outcome.output, cwd, self.scratch, outcome.exit_code)
        if outcome.exit_code == 0 and not outcome.timed_out:
            return TaskCheckResult(passed=True)
        how = f"took longer than {timeout_s:g} s" if outcome.timed_out else _ended(outcome.exit_code)
        note = f"\n{refused}" if refused else ""
        text = f"{_tail(outcome.output)}{note}"
        return TaskCheckResult(passed=False, reason=f"its check {how}: {_begin(command)}", output=text)

    def _roots(self, task: Task, by: str) -> Sequence[Path]:
        """Return the directories of the owner, else of the completing agent, else of the session."""
        for name in (task.owner or "", by):
            if name and (teammate := self.find(name)) is not None:
                return teammate.agent.toolbox.workplace.directories()
        return self.policy.directories

    def _cwd(self, task: Task, by: str) -> Path:
        """Return the working directory of the owner, else of the completing agent, else of the session."""
        for name in (task.owner or "", by):
            teammate = self.find(name) if name else None
            if teammate is not None and (cwd := teammate.agent.toolbox.workplace.cwd).is_dir():
                return cwd
        return self.cwd

    @contextmanager
    def _notify_slow(self, task: Task, by: str, command: str) -> Generator[None]:
        """Emit an event for a long check, so that it is visible in the team's status."""
        teammate = self.find(by)
        member = teammate.name if teammate is not None else LEAD
        since = round(time.time(), 3)
        what = f"check of #{task.id}: {self.mask(command)[:200]}"

        def tell() -> None:
            self.emit(Progress(member=member, doing="tool", what=what, since=since))

        timer = asyncio.get_running_loop().call_later(NOTIFY_AFTER_S, tell)
        try:
            yield
        finally:
            timer.cancel()


ALLOWED_CHECKS = "checks.json"
"""The file in the session's directory with the commands that were allowed as checks."""

_VERSION = 1
_MOST_COMMANDS = 1000
"""Maximum number of stored commands; the oldest are dropped, and are allowed again when they are set again."""


class AllowedCommands:
    """The allowed commands in a session's file, which is read again after a change and written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commands: dict[str, str] = {}
        self._seen: tuple[int, int, int] | None = None

    def decision_directory(self, command: str) -> Path | None:
        """Return the directory of the last decision on the command; None: it was never allowed."""
        found = self._known().get(command)
        return None if found is None else Path(found)

    def add(self, command: str, seen_from: Path) -> None:
        """Allow a command, with the directory of the decision. Raises StorageError; then it is not allowed."""
        if self._known().get(command) == str(seen_from):
            return
        with hold_exclusive(self._path.with_suffix(".lock"), self._path):
            others = {one: place for one, place in self._known().items() if one != command}
            more = dict(list({**others, command: str(seen_from)}.items())[-_MOST_COMMANDS:])
            body = {"v": _VERSION, "allowed": list(more), "seen_from": list(more.values())}
            write_atomic(self._path, json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape"))

    def _known(self) -> dict[str, str]:
        try:
            stat = os.stat(self._path)
        except OSError:
            return {}
        if self._seen != (now := (stat.st_ino, stat.st_mtime_ns, stat.st_size)):
            self._commands = self._read()
            self._seen = now
        return self._commands

    def _read(self) -> dict[str, str]:
        """Return the content of the file; an unreadable file allows nothing."""
        try:
            found = cast("dict[str, Any]", json.loads(self._path.read_bytes().decode("utf-8", "surrogateescape")))
            commands = cast("list[Any]", found["allowed"])
            places = cast("list[Any]", found["seen_from"])
            pairs = list(zip(commands, places, strict=True)) if found["v"] == _VERSION else []
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {one: place for one, place in pairs if isinstance(one, str) and isinstance(place, str)}


def _ended(code: int) -> str:
    return f"failed (exit code {code})" if code >= 0 else f"was ended by signal {-code}"


def _begin(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= COMMAND_CHARS else line[:COMMAND_CHARS] + "…"


def _tail(text: str) -> str:
    text = text.strip("\n")
    return text if len(text) <= OUTPUT_CHARS else "…" + text[-OUTPUT_CHARS:]
