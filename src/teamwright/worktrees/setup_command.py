"""A command in a worktree: the setup of a new one, or the check of a merge, within a time limit.

A person's settings or a trusted team file name it. It runs files that agents wrote, and is therefore
confined like their commands. Depends on processes and the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from teamwright.processes.process_records import ProcessPurpose, ProcessRecords
from teamwright.protocol.errors import WorktreeRefused
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import CommandConfinement

OUTPUT_CHARS = 2_000
"""Characters of the end of a failed setup's output in its error."""


def _no_variables() -> Mapping[str, str]:
    return {}


ConfineCommand: TypeAlias = "Callable[[str, Path, SandboxSettings], Awaitable[CommandConfinement | None]]"
"""Returns the confinement of a command in a worktree, within bounds; None without a sandbox."""


async def _unconfined(_command: str, _tree: Path, _bounds: SandboxSettings) -> None:
    return None


_OUTPUT = "its output"


def failure_text(problem: WorktreeRefused) -> str:
    """Return why a command failed, with the end of its output on the next lines."""
    return "\n".join([problem.what, *(text for key, text in problem.looked_at if key == _OUTPUT)])


def _refusals(confinement: CommandConfinement, output: str, tree: Path) -> str:
    """Return a line about what the sandbox refused, as far as the output shows it."""
    from teamwright.sandbox.violations import find_refusal

    hosts = confinement.route.refused if confinement.route is not None else ()
    found = find_refusal(confinement.policy, output, str(tree), hosts, replaces_tmp=confinement.replaces_tmp)
    return f"\n{found.note()}" if found is not None else ""


class SetupCommand(Struct, frozen=True):
    """A command for each new worktree; empty: none. It may take `timeout_s` seconds.

    `environment` returns the environment of agents' commands; `records` has the processes of the session. `quarantine`
    is the directory for files that a confined command created at protected paths.
    """

    command: str = ""
    timeout_s: float = 600.0
    shell: str = "/bin/sh"
    environment: Callable[[], Mapping[str, str]] = _no_variables
    records: ProcessRecords | None = None
    purpose: str = "setup"
    """`setup`, or `check` for the check of a merge."""
    confine: ConfineCommand = _unconfined
    quarantine: Path = Path(os.devnull)

    async def run(self, tree: Path, variables: Mapping[str, str], bounds: SandboxSettings = UNBOUNDED) -> bool:
        """Run the command in the worktree. Returns True when there is one.

        `bounds` are those of the commands of the agent that works there.
        Raises WorktreeRefused with the end of its output when it fails.
        """
        if not self.command:
            return False
        from teamwright.processes.process_group import ProcessCommand, run_command
        from teamwright.processes.process_output import ProcessOutput

        environment = {**self.environment(), **variables, "PWD": str(tree)}
        purpose = ProcessPurpose(member=tree.name, call=self.purpose)
        confinement = await self.confine(self.command, tree, bounds)
        guard = None if confinement is None else confinement.guard()
        command = ProcessCommand(
            (self.shell, "-c", self.command), tree, environment, self.records, purpose, confinement=confinement
        )
        try:
            done = await run_command(command, ProcessOutput(OUTPUT_CHARS * 2), timeout_s=self.timeout_s)
        except OSError as problem:
            raise self._failed(f"could not be started ({problem.strerror})", "") from None
        finally:
            if guard is not None:
                guard.restore(self.quarantine)
        if done.timed_out or done.exit_code:
            how = f"took longer than {self.timeout_s:g} s" if done.timed_out else f"failed (exit code {done.exit_code})"
            refused = "" if confinement is None else _refusals(confinement, done.output, tree)
            raise self._failed(how, f"{done.output.strip()[-OUTPUT_CHARS:]}{refused}")
        return True

    def _failed(self, how: str, output: str) -> WorktreeRefused:
        return WorktreeRefused(
            "worktree-refused",
            f"the {self.purpose} of the worktree {how}: {self.command[:120]}",
            looked_at=[(_OUTPUT, output)] if output else [],
            do=["fix the command: worktrees.setup in the settings, or setup in team.toml"] * (self.purpose == "setup"),
            note="nothing was started" if self.purpose == "setup" else "",
        )
