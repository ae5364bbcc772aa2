"""The status line script of a person: a command that gets the state of the session as JSON and prints rows.

It runs after changes of the session, one at a time, with a time limit. Its output is text of another program: control
characters are removed. Depends on a session.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from teamwright import __version__
from teamwright.config.executed_file_digests import git_doubt, is_of_repository, run_digests
from teamwright.config.repository_programs import line_files
from teamwright.processes.commands import ProcessCommand, ProcessOutput, run_command
from teamwright.processes.program_environment import own_variables
from teamwright.protocol.events import Compacted, ModeChanged, ModelCallEnded, ModelChanged, TeamEvent, TurnEnded
from teamwright.protocol.time_limit import time_limit
from teamwright.session.session import Session
from teamwright.tools.shell.bash_settings import command_environment
from teamwright.ui.display_text import clean, cut
from teamwright.views.live_status import TaskBoard, session_row

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import CommandConfinement

TIMEOUT_S = 5.0
PAUSE_S = 0.3
"""Seconds between a change and the run that shows it, so that several changes need one run."""

MAX_ROWS, MAX_OUTPUT, MAX_PADDING = 3, 8_000, 20
MIN_REFRESH_S = 1.0

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_CHANGES = (Compacted, ModeChanged, ModelCallEnded, ModelChanged, TurnEnded)


async def _no_sandbox() -> CommandConfinement | None:
    return None


class StatusScript(Struct):
    """The script and its newest rows. `state` returns the JSON for its stdin; `changed` redraws the rows.

    `is_trusted` is False when a file of the project that the script runs was changed; `confine` returns its sandbox.
    """

    command: str
    cwd: Path
    env: Mapping[str, str]
    state: Callable[[], Mapping[str, Any]]
    mask: Callable[[str], str]
    changed: Callable[[], None]
    padding: int = 0
    refresh_s: float | None = None
    is_trusted: Callable[[], bool] = lambda: True
    confine: Callable[[], Awaitable[CommandConfinement | None]] = _no_sandbox
    rows: tuple[str, ...] = ()
    _due: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Run the script now, and then after changes."""
        self._due.set()
        self._runner = asyncio.create_task(self._run(), name="status line script")

    def note(self, event: TeamEvent) -> None:
        """Run the script again after an event that changes its input."""
        if isinstance(event, _CHANGES):
            self._due.set()

    def end(self) -> None:
        """Stop the script."""
        if self._runner is not None:
            self._runner.cancel()

    def lines(self, width: int) -> list[str]:
        """Return the rows, each at most `width` columns wide."""
        return [cut(" " * self.padding + row, width) for row in self.rows]

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with time_limit(self.refresh_s):
                    await self._due.wait()
            self._due.clear()
            rows = await self.read_rows()
            if rows != self.rows:
                self.rows = rows
                self.changed()
            await asyncio.sleep(PAUSE_S)

    async def read_rows(self) -> tuple[str, ...]:
        """Return the rows that the script prints; none when it fails, as in similar programs."""
        if not await asyncio.to_thread(self.is_trusted):
            return ()
        content = json.dumps(self.state(), ensure_ascii=False).encode("utf-8", "replace")
        argv = ("/bin/sh", "-c", self.command)
        command = ProcessCommand(
            argv, self.cwd, self.env, input=content, is_for_agent=False, confinement=await self.confine()
        )
        try:
            result = await run_command(
                command, ProcessOutput(MAX_OUTPUT), ProcessOutput(MAX_OUTPUT), timeout_s=TIMEOUT_S
            )
        except OSError:
            return ()
        if result.timed_out or result.exit_code:
            return ()
        text = self.mask(_without_colors(result.output))
        return tuple(clean(line).rstrip() for line in text.split("\n") if line.strip())[:MAX_ROWS]


def _without_colors(text: str) -> str:
    """Return the text without escape sequences of terminals."""
    return _ESCAPE.sub("", text)


def make_status_script(
    session: Session, mask: Callable[[str], str], changed: Callable[[], None]
) -> StatusScript | None:
    """Return the script of the settings; None without one, and where all hooks are switched off."""
    context = session.reloading.context
    entry, settings = context.settings.status_line, context.settings
    command = entry.get("command")
    padding = entry.get("padding")
    refresh = entry.get("refreshInterval")
    if not isinstance(command, str) or not command.strip() or entry.get("type", "command") != "command":
        return None
    if settings.hooks_off:
        return None
    origin = Path(settings.origins.get("statusLine", ""))
    cwd, root = session.agent_factory.work_directory, context.trust.root
    own = {"CLAUDE_PROJECT_DIR": str(root), "TEAMWRIGHT_PROJECT_DIR": str(root)}
    began = time.monotonic()
    is_projects = is_of_repository(root, str(origin))
    found = line_files(root, command)
    trusted = run_digests(root, found.programs) if is_projects else []
    says = bool(found.unknown) and (is_projects or found.is_of_project)
    place = root if origin.is_relative_to(root) else cwd
    doubt = partial(git_doubt, place, context.trust.trusted_git) if found.runs_git else str
    return StatusScript(
        command,
        place,
        {**own_variables(command_environment(settings.bash, context.env)), **own},
        lambda: status_input(session, time.monotonic() - began),
        mask,
        changed,
        min(padding, MAX_PADDING) if isinstance(padding, int) and padding > 0 else 0,
        max(float(refresh), MIN_REFRESH_S) if isinstance(refresh, int | float) and refresh > 0 else None,
        lambda: not is_projects or run_digests(root, line_files(root, command).programs) == trusted,
        partial(_confine, session, command, root, (lambda: True) if says else doubt),
    )


async def _confine(
    session: Session, command: str, root: Path, is_in_doubt: Callable[[], object]
) -> CommandConfinement | None:
    """Return the sandbox of a script whose program is not known, or is what a file of the project says.

    None for any other script: `is_in_doubt` is asked before each run, because git obeys the repository as it is then.
    """
    if not await asyncio.to_thread(is_in_doubt):
        return None
    from teamwright.session.wiring.program_confinement import confine_line, lead_gate

    agent_factory = session.agent_factory
    sandbox = agent_factory.toolset.use_sandbox()
    roots = (root, *agent_factory.policy.scope.directories)
    return await confine_line(sandbox, lead_gate(agent_factory), "the status line", roots, command, root)


def status_input(session: Session, seconds: float) -> dict[str, Any]:
    """Return the input of a status line script, with the documented names of the ecosystem."""
    row = session_row(session, TaskBoard())
    cwd, context = session.agent_factory.work_directory, session.reloading.context
    used = round(100 * row.context / row.window) if row.window else None
    size = {"context_window_size": row.window, "total_input_tokens": row.context, "used_percentage": used}
    left = None if used is None else max(0, 100 - used)
    added = [str(path) for path in session.agent_factory.policy.directories if path != cwd]
    return {
        "hook_event_name": "Status",
        "session_id": session.id,
        "transcript_path": str(session.lead.agent.conversation.path),
        "cwd": str(cwd),
        "model": {"id": session.lead.agent.model.card.wire, "display_name": row.model},
        "workspace": {"current_dir": str(cwd), "project_dir": str(context.trust.root), "added_dirs": added},
        "version": __version__,
        "output_style": {"name": context.settings.output_style or "default"},
        "permission_mode": row.mode,
        "cost": {"total_cost_usd": row.usd, "total_duration_ms": int(seconds * 1_000)},
        "context_window": {**size, "remaining_percentage": left},
        "exceeds_200k_tokens": row.context > 200_000,
        "team": {"name": session.team.name, "tokens": row.tokens, "requests": row.requests},
    }
