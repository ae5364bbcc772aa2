"""A command in a worktree: the setup of a new one, or the check of a merge, within a time limit.

A person's settings or a trusted team file name it. Depends on processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from teamwright.processes.process_records import ProcessPurpose, ProcessRecords
from teamwright.protocol.errors import WorktreeRefused

OUTPUT_CHARS = 2_000
"""Characters of the end of a failed setup's output in its error."""


def _no_variables() -> Mapping[str, str]:
    return {}


_OUTPUT = "its output"


def failure_text(problem: WorktreeRefused) -> str:
    """Return why a command failed, with the end of its output on the next lines."""
    return "\n".join([problem.what, *(text for key, text in problem.looked_at if key == _OUTPUT)])


class SetupCommand(Struct, frozen=True):
    """A command for each new worktree; empty: none. It may take `timeout_s` seconds.

    `environment` returns the environment of agents' commands; `records` has the processes of the session.
    """

    command: str = ""
    timeout_s: float = 600.0
    shell: str = "/bin/sh"
    environment: Callable[[], Mapping[str, str]] = _no_variables
    records: ProcessRecords | None = None
    purpose: str = "setup"
    """`setup`, or `check` for the check of a merge."""

    async def run(self, tree: Path, variables: Mapping[str, str]) -> bool:
        """Run the command in the worktree. Returns True when there is one.

        Raises WorktreeRefused with the end of its output when it fails.
        """
        if not self.command:
            return False
        from teamwright.processes.process_group import ProcessCommand, run_command
        from teamwright.processes.process_output import ProcessOutput

        environment = {**self.environment(), **variables, "PWD": str(tree)}
        purpose = ProcessPurpose(member=tree.name, call=self.purpose)
        made = ProcessCommand((self.shell, "-c", self.command), tree, environment, self.records, purpose)
        try:
            done = await run_command(made, ProcessOutput(OUTPUT_CHARS * 2), timeout_s=self.timeout_s)
        except OSError as problem:
            raise self._failed(f"could not be started ({problem.strerror})", "") from None
        if done.timed_out or done.exit_code:
            how = f"took longer than {self.timeout_s:g} s" if done.timed_out else f"failed (exit code {done.exit_code})"
            raise self._failed(how, done.output.strip()[-OUTPUT_CHARS:])
        return True

    def _failed(self, how: str, output: str) -> WorktreeRefused:
        return WorktreeRefused(
            "worktree-refused",
            f"the {self.purpose} of the worktree {how}: {self.command[:120]}",
            looked_at=[(_OUTPUT, output)] if output else [],
            do=["fix the command: worktrees.setup in the settings, or setup in team.toml"] * (self.purpose == "setup"),
            note="nothing was started" if self.purpose == "setup" else "",
        )
