"""Teammates that run in separate processes, started by a backend: the launcher's interface and the shared base classes.

Depends on the team's view of a member.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.members import RosterMember
from teamwright.protocol.secret_texts import mask_tokens, mask_values
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import Incarnation
from teamwright.teams.backend import Backend
from teamwright.teams.teammate import Teammate


class TeammateLauncher(Protocol):
    """The port that starts members in separate processes."""

    async def choose_backend(self, spec: SpawnSpec) -> str:
        """Return the backend for a new member, IN_PROCESS or another. Raises CannotStart for an unavailable one."""
        ...

    @property
    def choice_reason(self) -> str:
        """The reason for the last choice of `auto`, a clause; empty when the backend was named."""
        ...

    async def start(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        """Start the process of a new member; returns when it is ready. `undo` stops it when a later step fails.

        Raises CannotStart with the last output of the process, and what it could not start for.
        """
        ...

    async def resume(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        """Resume a member whose lead had ended: reconnect to its process if it runs, else start a new one. Raises as
        `start`.
        """
        ...

    async def clean_up(self, incarnation: Incarnation) -> None:
        """Stop the remaining processes of a member that has ended. Raises CannotStart when its backend
        does not answer.
        """


class BackendTeammate(Teammate, kw_only=True, eq=False):
    """A member in another process. `reported_mode` is the mode that it was given or reported."""

    member_name: str
    transcript: Path
    backend: Backend
    reported_mode: str = ""
    secrets: frozenset[str] = frozenset()
    """Values that are masked in its output."""

    @property
    def name(self) -> str:
        return self.member_name

    @property
    def transcript_path(self) -> Path:
        """See `Teammate`. An external program writes no transcript there."""
        return self.transcript

    async def _close_backend(self) -> str:
        """Close its location with all processes in it. Returns an empty text, or that it may still run, and why."""
        try:
            if self.location is not None:
                await self.backend.close(self.location)
        except TeamwrightError as problem:
            return f"{self.name} may still run: {problem.what}"
        return ""

    async def last_output(self) -> str:
        """Return how it ended and its last lines of output, with secrets masked; empty when unknown."""
        output = await self.backend.last_output(self.location) if self.location is not None else ""
        return mask_tokens(mask_values(output, self.secrets)).strip()

    async def _last_line(self) -> str:
        """Return how it ended and the last line of its output, which need not be the reason; empty without both."""
        first, *rest = (await self.last_output()).splitlines() or [""]
        how, lines = (first, rest) if first.startswith("ended ") else ("", [first, *rest])
        last = lines[-1].strip()[:_MAX_LAST_LINE] if lines else ""
        return (f": {how}" if how else "") + (f" (its last output: {last})" if last else "")


class ProcessTeammateBase(BackendTeammate, kw_only=True, eq=False):
    """A member whose agent runs in another of our processes."""

    @abstractmethod
    async def perform(self, act: str, /, **arguments: Any) -> Mapping[str, Any]:
        """Have its process perform an act and wait for the end. Returns the result as JSON.

        Raises the error that its process raised (a TeamwrightError), and TeamRefused when it cannot be reached.
        """


_MAX_LAST_LINE = 300
