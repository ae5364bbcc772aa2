"""What the team needs from above to have members in processes of their own. Filled in `app`."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from teamwright.protocol.roster import Member
from teamwright.storage.sockets.wire import Said
from teamwright.teams.incarnation import Life
from teamwright.teams.places.place import Launch, Place, Spot
from teamwright.teams.spec import SpawnSpec


class Housing(Protocol):
    """Where members live, and what their processes are started with."""

    async def choose(self, spec: SpawnSpec) -> tuple[str, Place] | None:
        """The backend of a new member and its place; None: it lives in this process.

        Raises CannotStart for one that is not to be had.
        """
        ...

    @property
    def why(self) -> str:
        """Why `auto` made the last choice, a clause; empty where it was asked for by name."""
        ...

    async def place_of(self, spot: Spot) -> Place | None:
        """The place of that kind, to probe or to close it; None when there is none any more."""
        ...

    def token_of(self, life: Life) -> str:
        """What the member's last process was told to call with; empty when that cannot be known."""
        ...

    def discard(self, room: Path) -> None:
        """Delete what a process of this room was to read at its start and did not read. Never raises."""
        ...

    def heard_of(self, name: str, life: Life) -> int:
        """The number of the newest line of the member's own log that stands in the session's."""
        ...

    def launch(self, member: Member, life: Life, token: str, *, resumed: bool) -> Launch:
        """Everything that the member's process is started with. Raises CannotStart, StorageError."""
        ...


class Help(Protocol):
    """What members' processes ask of the lead's, beyond what a team knows of."""

    def welcome(self, name: str) -> Said:
        """What the process of this member is told when it has called."""
        ...

    def noted(self, name: str, what: str, said: Said) -> None:
        """The process of this member told something."""
        ...

    def over(self, name: str, room: Path) -> None:
        """The process of this member, with that room, has ended, however that came."""
        ...

    async def called(self, name: str, what: str, said: Said) -> Said:
        """The process of this member has something done: a question answered, room for a call."""
        ...
