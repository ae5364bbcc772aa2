"""A member that a process of its own runs, started in a place: what it is called, and how its place is closed.

Below it: the member as its team sees it. Refuses to know which program runs it, and what that says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.roster import RosterMember
from teamwright.protocol.values import dataclass
from teamwright.teams.backends.backend import Backend
from teamwright.teams.incarnation import Incarnation
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.teammate import Teammate

IN_PROCESS = "in-process"
"""The backend of a member that lives in its lead's process."""


class TeammateLauncher(Protocol):
    """Members in processes of their own; filled by `processes`."""

    async def choose_backend(self, spec: SpawnSpec) -> str:
        """The backend for a new member, IN_PROCESS or another. Raises CannotStart for one that is not to be had."""
        ...

    @property
    def choice_reason(self) -> str:
        """Why `auto` chose the last backend, a clause; empty where it was asked for by name."""
        ...

    async def start(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        """Start the process of a new member; returns when it is ready, and `undo` takes it back when that fails later.

        Raises CannotStart with its last words, and what it could not begin for.
        """
        ...

    async def resume(self, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
        """Go on with a member whose lead was gone: its process if that lives, else a new one. Raises as `start`."""
        ...

    async def clean_up(self, incarnation: Incarnation) -> None:
        """End what still runs of a member that is over. Raises CannotStart when its place does not answer."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class BackendTeammate(Teammate):
    """One that lives elsewhere. `who` is its name, `said_mode` the mode that it was given or says it is in."""

    member_name: str
    transcript: Path
    backend: Backend
    reported_mode: str = ""

    @property
    def name(self) -> str:
        """See Mate."""
        return self.member_name

    @property
    def transcript_path(self) -> Path:
        """See Mate. A program that is not ours writes none there."""
        return self.transcript

    async def _close_backend(self) -> str:
        """Close it with all that runs there. Empty, or that it may still run, and why."""
        try:
            if self.location is not None:
                await self.backend.close(self.location)
        except TeamwrightError as problem:
            return f"{self.name} may still run: {problem.what}"
        return ""

    async def _last_line(self) -> str:
        """`: ` and the last line that stands there; empty when nothing does."""
        said = (await self.backend.last_output(self.location)).strip() if self.location is not None else ""
        return f": {said.splitlines()[-1].strip()[:_MAX_LAST_LINE]}" if said else ""


@dataclass(slots=True, kw_only=True, eq=False)
class ProcessTeammateBase(BackendTeammate):
    """One whose agent is not here."""

    @abstractmethod
    async def perform(self, act: str, /, **arguments: Any) -> Mapping[str, Any]:
        """Have its process do this, and wait until it has; what came of it, as JSON has it.

        Raises what its process raised (a TeamwrightError), and TeamRefused when it cannot be reached.
        """


_MAX_LAST_LINE = 300
