"""Task checks: the commands that are allowed, and their execution with limits of time and output, under no lock.

A check runs as a process group in the owner's directory. Only allowed commands run: by the agent that set the check, by
the user for all tasks, or by the rules of the member that completes the task. Allowed commands are in a file, for a
resume and for all processes of the session; other commands in a task's file are not trusted. Depends on teams and
processes. Format: docs/reference/formats/tasks.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct

from teamwright.agent.activity_monitor import NOTIFY_AFTER_S
from teamwright.agent.permission_gate import PermissionGate
from teamwright.config.settings.settings import CheckSettings
from teamwright.permissions.verdict import Access, Approver, Mode, Verdict, stricter
from teamwright.processes.process_records import ProcessPurpose
from teamwright.processes.program_environment import proven_variables
from teamwright.protocol.events import Emit, Progress
from teamwright.protocol.ids import LEAD
from teamwright.session.wiring.work_confinement import confine_line
from teamwright.storage.atomic_write import write_atomic
from teamwright.storage.exclusive_lock import hold_exclusive
from teamwright.tasks.task_check import TaskCheckResult
from teamwright.tools.shell.shell_choice import is_proven
from teamwright.tools.shell.startup import plain_shell

if TYPE_CHECKING:
    from collections.abc import Generator

    from teamwright.agent.background_jobs import BackgroundJobs
    from teamwright.permissions.permission_decision import Policy
    from teamwright.protocol.task import Task
    from teamwright.sandbox.policy import SandboxSettings
    from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
    from teamwright.teams.local_teammate import LocalTeammate


VERSION = 1
MOST = 1000
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
            more = dict(list({**others, command: str(seen_from)}.items())[-MOST:])
            body = {"v": VERSION, "allowed": list(more), "seen_from": list(more.values())}
            write_atomic(self._path, json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape"))

    def _known(self) -> dict[str, str]:
        try:
            stat = os.stat(self._path)
        except OSError:
            return {}
        if self._seen != (now := (stat.st_ino, stat.st_mtime_ns, stat.st_size)):
            self._commands, self._seen = self._read(), now
        return self._commands

    def _read(self) -> dict[str, str]:
        """Return the content of the file; an unreadable file allows nothing."""
        try:
            found = cast("dict[str, Any]", json.loads(self._path.read_bytes().decode("utf-8", "surrogateescape")))
            commands, places = cast("list[Any]", found["allowed"]), cast("list[Any]", found["seen_from"])
            pairs = list(zip(commands, places, strict=True)) if found["v"] == VERSION else []
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {one: place for one, place in pairs if isinstance(one, str) and isinstance(place, str)}


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
        """Implement `tasks.task_check.CheckRunner.search_path`."""
        return self.environment().get("PATH", "")

    def commands(self, task: Task) -> tuple[str, ...]:
        """Implement `tasks.task_check.CheckRunner.commands`."""
        return tuple(dict.fromkeys(one for one in (task.check, self.settings.command) if one))

    def allow(self, command: str, seen_from: Path | None) -> None:
        """Implement `tasks.task_check.CheckRunner.allow`."""
        self.allowed.add(command, seen_from or self.cwd)

    async def run(self, task: Task, commands: tuple[str, ...], by: str) -> TaskCheckResult:
        """Implement `tasks.task_check.CheckRunner.run`."""
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
        policy, path = self._policy(by), self.search_path
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
        from teamwright.processes.process_group import ProcessCommand, run_command
        from teamwright.processes.process_output import ProcessOutput

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


def _ended(code: int) -> str:
    return f"failed (exit code {code})" if code >= 0 else f"was ended by signal {-code}"


def _begin(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= COMMAND_CHARS else line[:COMMAND_CHARS] + "…"


def _tail(text: str) -> str:
    text = text.strip("\n")
    return text if len(text) <= OUTPUT_CHARS else "…" + text[-OUTPUT_CHARS:]
