"""Checks are run here: as a process group in the owner's directory, bounded in time and output, under no lock.

Only what somebody allowed is run: whoever set the check, the user who set it for all tasks, or the rules of the member
that completes the task. Knows teams and processes; does not know what follows from how a check went.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.agent.activity import TELL_AFTER_S
from teamwright.app.checking.allowed import Allowed
from teamwright.app.checking.settings import CheckSettings
from teamwright.permissions.verdict import Access, Mode, Verdict, stricter
from teamwright.protocol.events import Emit, Underway
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.storage.output import Output
from teamwright.storage.processes.process import Command, run
from teamwright.storage.processes.records import Purpose
from teamwright.tasks.check import Checked
from teamwright.teams.team import Team
from teamwright.tools.shell.bash import shell

if TYPE_CHECKING:
    from collections.abc import Generator

    from teamwright.agent.background import BackgroundJobs
    from teamwright.permissions.decide import Policy
    from teamwright.protocol.task import Task

OUTPUT_CHARS = 4_000
"""Characters of a check's output that go back; of a longer one its end."""

COMMAND_CHARS = 120
"""Characters of a check that a refusal repeats."""


@dataclass(slots=True)
class Checks:
    """The checks of one session (port of `tasks`). `environment` is what commands of agents get.

    `policy` is the lead's, for who has none of its own; `shown` masks what of a command nobody may read.
    """

    team: Team
    settings: CheckSettings
    allowed: Allowed
    policy: Policy
    environment: Callable[[], Mapping[str, str]]
    jobs: BackgroundJobs
    emit: Emit
    shown: Callable[[str], str]

    def commands(self, task: Task) -> tuple[str, ...]:
        """See `tasks.check.Check`."""
        return tuple(dict.fromkeys(one for one in (task.check, self.settings.command) if one))

    def allow(self, command: str, seen_from: Path | None) -> None:
        """See `tasks.check.Check`."""
        self.allowed.add(command, seen_from or self.team.cwd)

    async def run(self, task: Task, commands: tuple[str, ...], by: str) -> Checked:
        """See `tasks.check.Check`."""
        cwd = self._cwd(task, by)
        if not all(self._may(command, cwd, by) for command in commands):
            return Checked(passed=False, ran=False)
        for command in commands:
            with self._told(task, by, command):
                checked = await self._one(command, cwd, by)
            if not checked.passed:
                return checked
        return Checked(passed=True)

    def _may(self, command: str, cwd: Path, by: str) -> bool:
        """Whether anybody allowed it. That a mode lets everything pass says nothing of what a stranger wrote.

        What was allowed in one directory may reach further from another: there it must be as free of doubt.
        """
        seen_from = self.allowed.seen_from(command)
        if command == self.settings.command or seen_from == cwd:
            return True
        mate = self.team.own(by)
        policy = (mate.agent.policy if mate is not None else None) or self.policy
        now = policy.decide("Bash", Access(command=command, cwd=cwd)).verdict
        if seen_from is not None:
            then = policy.decide("Bash", Access(command=command, cwd=seen_from)).verdict
            return stricter(then, now) is then
        return now is Verdict.ALLOW and policy.shown_mode is not Mode.BYPASS

    async def _one(self, command: str, cwd: Path, by: str) -> Checked:
        output = Output(OUTPUT_CHARS * 2)
        purpose = Purpose(by, "check")
        environment = {**self.environment(), "PWD": str(cwd)}
        timeout_s = self.settings.timeout_s
        await self.jobs.ready()  # no check meets what an earlier life of the session left running
        try:
            made = Command((shell(), "-c", command), cwd, environment, self.jobs.records, purpose)
            outcome = await run(made, output, timeout_s=timeout_s, grace_s=self.settings.grace_s)
        except OSError as problem:
            return Checked(passed=False, why=f"its check could not be started ({problem.strerror}): {_begin(command)}")
        if outcome.exit_code == 0 and not outcome.timed_out:
            return Checked(passed=True)
        how = f"took longer than {timeout_s:g} s" if outcome.timed_out else _ended(outcome.exit_code)
        return Checked(passed=False, why=f"its check {how}: {_begin(command)}", output=_tail(outcome.output))

    def _cwd(self, task: Task, by: str) -> Path:
        """Where the owner works, else whoever completes the task, else the session."""
        for name in (task.owner or "", by):
            mate = self.team.own(name) if name else None
            if mate is not None and (cwd := mate.agent.toolbox.workplace.cwd).is_dir():
                return cwd
        return self.team.cwd

    @contextmanager
    def _told(self, task: Task, by: str, command: str) -> Generator[None]:
        """A check that lasts is seen by whoever looks at the team."""
        mate = self.team.own(by)
        member = mate.name if mate is not None else LEAD
        since = round(time.time(), 3)
        what = f"check of #{task.id}: {self.shown(command)[:200]}"

        def tell() -> None:
            self.emit(Underway(member=member, doing="tool", what=what, since=since))

        timer = asyncio.get_running_loop().call_later(TELL_AFTER_S, tell)
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
