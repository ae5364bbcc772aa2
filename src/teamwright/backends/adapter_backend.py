"""The backend of a terminal adapter: the adapter's commands, run as argument lists with limits on time and output.

The terminal runs the starter, so that the program has its own environment, arguments and directory independent of the
terminal. The process identifies what was started; a pane is closed only if it is proved to be ours. Depends on terminal
adapters, the handover and processes.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from teamwright.backends.handover import Handover, LaunchFailed, offer_launch
from teamwright.backends.terminal_adapter import TerminalAdapter, build_command, fill, json_contains
from teamwright.backends.watched_process import (
    is_running,
    process_identity,
    process_tree,
    run_to_end,
    terminal_device,
    wait_until_ended,
)
from teamwright.processes.commands import ProcessResult, run_argv
from teamwright.processes.program_environment import find_program, own_variables
from teamwright.protocol.errors import CannotStart
from teamwright.teams.backend import Launch, Location

_END_S = 2.0
_OUTPUT = 1_000_000
_LIST_DELAYS_S = (0.0, 0.05, 0.1, 0.3, 1.0, 2.0)
"""Seconds between checks whether a terminal lists a pane that it has just opened."""

_PASSED_VARIABLES = frozenset(
    {
        *("COLORTERM", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
        *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
    }
)
_PASSED_PREFIXES = ("LC_", "XDG_")


class _CommandFailed(Exception):
    """A failed command of the adapter; the text says why, `words` is its output."""

    def __init__(self, why: str, words: str = "") -> None:
        super().__init__(why)
        self.output = words


def unusable_reason(adapter: TerminalAdapter, environ: Mapping[str, str]) -> str:
    """Return why this adapter cannot be used here, a clause; empty when it can."""
    for program in adapter.programs:
        if not find_program(program, environ.get("PATH", "")):
            return f"its program is not installed (no {program} in PATH)"
    missing = [name for name in adapter.variables if not environ.get(name)]
    return f"this is not a terminal of this backend ({missing[0]} is not set)" if missing else ""


class AdapterBackend:
    """A `Backend`. Parameters: `adapter`, the terminal adapter; `environ`, the lead's environment, of which commands
    receive only non-secret variables.
    """

    def __init__(self, adapter: TerminalAdapter, environ: Mapping[str, str]) -> None:
        self._adapter = adapter
        passed_names = {*_PASSED_VARIABLES, *adapter.variables, *adapter.takes}
        handed_on = {
            name: value for name, value in environ.items() if name in passed_names or name.startswith(_PASSED_PREFIXES)
        }
        self._environ = {**own_variables(handed_on), **adapter.env}
        self._environment_values = {f"env:{name}": environ.get(name, "") for name in adapter.variables}
        self._open_locations: list[Location] = []
        self._open_lock = asyncio.Lock()

    async def open(self, launch: Launch) -> Location:
        """Start the launch as the adapter says; the rest as `Backend.open`."""
        try:
            async with offer_launch(launch) as handover:
                return await self._open(launch, handover)
        except LaunchFailed as problem:
            raise self._cannot_start(launch, str(problem)) from problem
        except _CommandFailed as problem:
            raise self._cannot_start(launch, str(problem), problem.output) from problem

    async def is_alive(self, location: Location) -> bool:
        """Return True while its process runs; for an invisible process, the answer of the adapter's `alive` command.

        Raises CannotStart (`backend`) when the command gives no answer: the state is then unknown.
        """
        if process_identity(location)[0]:
            return is_running(location)
        try:
            return await self._is_there(location)
        except _CommandFailed as problem:
            raise self._unreachable_error(location, str(problem)) from problem

    async def wait_until_ended(self, location: Location) -> None:
        """Wait until the program has ended; return at once when its process is not visible."""
        await wait_until_ended(location)

    async def last_output(self, location: Location) -> str:
        """Return an empty text: an adapter has no command for output."""
        return ""

    async def close(self, location: Location) -> None:
        """Close the location if it is proved to be ours, and stop its processes; the rest as `Backend.close`."""
        family = process_tree(location)
        trouble = None
        self._open_locations = [one for one in self._open_locations if one.facts["mark"] != location.facts["mark"]]
        try:
            if await self._is_ours(location):
                if family is not None:
                    family.members()  # the processes that the end separates from their parents are known by now
                await self._run_command(self._adapter.close, self._values(location))
        except _CommandFailed as problem:
            trouble = problem
        if family is not None and (left := await family.terminate(_END_S)):
            raise self._unreachable_error(
                location, f"these processes will not end: {', '.join(str(row.pid) for row in left)}"
            )
        if trouble is None:
            return
        try:
            stays = await self._is_ours(location)
        except _CommandFailed as problem:
            raise self._unreachable_error(location, str(problem)) from problem
        if stays or family is None:
            raise self._unreachable_error(location, str(trouble)) from trouble

    async def hide(self, location: Location) -> bool:
        """Run the adapter's `hide`; False when it has none, or the pane is gone. Raises CannotStart (`backend`)."""
        return await self._run_on(self._adapter.hide, location)

    async def show(self, location: Location) -> bool:
        """Run the adapter's `show`; False when it has none, or the pane is gone. Raises CannotStart (`backend`)."""
        return await self._run_on(self._adapter.show, location)

    async def _run_on(self, command: Sequence[str], location: Location) -> bool:
        try:
            if not command or not await self._is_ours(location):
                return False
            await self._run_command(command, self._values(location))
        except _CommandFailed as problem:
            raise self._unreachable_error(location, str(problem)) from problem
        return True

    async def _open(self, launch: Launch, handover: Handover) -> Location:
        adapter = self._adapter
        facts = {
            "mark": secrets.token_hex(8),
            "name": launch.name,
            "team": launch.team,
            "session": launch.session,
            "color": launch.color,
        }
        values = {**self._environment_values, **facts, "command": shlex.join(handover.argv)}
        async with self._open_lock:
            output = await self._create(values, handover.argv)
        try:
            location = Location(adapter.name, adapter.id.read(output, values), facts)
        except ValueError as problem:
            raise _CommandFailed(f"{adapter.open[0]}: {problem}") from None
        try:
            if adapter.start:
                await self._run_command(adapter.start, {**values, "id": location.id}, handover.argv)
            pid, start = await handover.deliver(adapter.start_s)
            if pid:
                location = replace(
                    location, facts={**facts, "pid": str(pid), "start": start, "tty": terminal_device(pid)}
                )
            await self._require_ours(location)
        except BaseException:
            await run_to_end(self.close(location))
            raise
        self._open_locations.append(location)
        if adapter.title:
            await self._set_title(location)
        return location

    async def _create(self, values: Mapping[str, str], argv: Sequence[str]) -> str:
        """Create a pane beside our newest live one, if the adapter and the terminal can; else a separate one."""
        beside = next((one for one in reversed(self._open_locations) if is_running(one)), None)
        if self._adapter.open_beside and beside is not None:
            try:
                return await self._run_command(self._adapter.open_beside, {**values, "beside": beside.id}, argv)
            except _CommandFailed:
                pass  # the pane was closed just now, or there is no room
        return await self._run_command(self._adapter.open, values, argv)

    async def _set_title(self, location: Location) -> None:
        try:
            await self._run_command(self._adapter.title, self._values(location))
        except _CommandFailed:
            return  # a failure here does not prevent the start

    async def _require_ours(self, location: Location) -> None:
        for pause in _LIST_DELAYS_S:
            await asyncio.sleep(pause)
            if await self._is_there(location):
                return
        conditions = ", ".join(
            f"{key} {fill(text, self._values(location))}" for key, text in self._adapter.where.items()
        )
        raise _CommandFailed(
            f"{self._adapter.alive[0]} does not list what was started as {location.id}"
            + (f" ({conditions})" if conditions else "")
        )

    async def _is_ours(self, location: Location) -> bool:
        """Return True when the pane with this id is proved to be the one that we opened."""
        return (self._adapter.is_known_by_mark or is_running(location)) and await self._is_there(location)

    async def _is_there(self, location: Location) -> bool:
        values = self._values(location)
        done = await self._run(build_command(self._adapter.alive, values))
        if done.exit_code != 0:
            return False
        if not self._adapter.where:
            return True
        try:
            return json_contains(done.output, {key: fill(text, values) for key, text in self._adapter.where.items()})
        except ValueError:
            raise _CommandFailed(f"{self._adapter.alive[0]} prints no JSON", done.output) from None

    async def _run_command(self, template: Sequence[str], values: Mapping[str, str], argv: Sequence[str] = ()) -> str:
        """Run one command and return its output. Raises _CommandFailed when it fails."""
        done = await self._run(build_command(template, values, argv))
        if done.exit_code != 0:
            output = done.errors.strip() or done.output.strip()
            raise _CommandFailed(f"{template[0]} failed with status {done.exit_code}", output)
        return done.output

    async def _run(self, argv: Sequence[str]) -> ProcessResult:
        limit = self._adapter.start_s
        try:
            done = await run_argv(argv, Path("/"), self._environ, limit, _OUTPUT)
        except (OSError, ValueError) as problem:
            raise _CommandFailed(f"{argv[0]} could not be run: {problem}") from problem
        if done.timed_out:
            raise _CommandFailed(f"{argv[0]} did not end within {limit:g} seconds", done.errors)
        return done

    def _values(self, location: Location) -> dict[str, str]:
        return {**self._environment_values, "pid": "", "tty": "", **location.facts, "id": location.id}

    def _cannot_start(self, launch: Launch, why: str, output: str = "") -> CannotStart:
        return CannotStart(
            "backend",
            f"{launch.name} could not be started in {self._adapter.name}: {why}",
            looked_at=[("wrote", line[:200]) for line in output.splitlines()[-6:] if line.strip()],
            do=[f"see docs/reference/backends.md#terminal-adapters: members.adapters.{self._adapter.name}"],
            note="nothing is left of it",
        )

    def _unreachable_error(self, location: Location, why: str) -> CannotStart:
        return CannotStart("backend", f"{self._adapter.name} {location.id} cannot be reached: {why}")
