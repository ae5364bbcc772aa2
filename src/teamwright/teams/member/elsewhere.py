"""What the team needs to have members that live in other processes: where they live, a start, and going on.

Filled by `processes` and `strangers`. Knows members as their team sees them; refuses to know how one is reached.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Protocol

from teamwright.protocol.roster import Member
from teamwright.teams.incarnation import Life
from teamwright.teams.member.mate import Mate
from teamwright.teams.spec import SpawnSpec

IN_PROCESS = "in-process"
"""The backend of a member that lives in its lead's process."""


class Elsewhere(Protocol):
    """Members in processes of their own; filled by `processes`."""

    async def choose(self, spec: SpawnSpec) -> str:
        """The backend for a new member, IN_PROCESS or another. Raises CannotStart for one that is not to be had."""
        ...

    @property
    def why(self) -> str:
        """Why `auto` chose the last backend, a clause; empty where it was asked for by name."""
        ...

    async def start(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """Start the process of a new member; returns when it is ready, and `undo` takes it back when that fails later.

        Raises CannotStart with its last words, and what it could not begin for.
        """
        ...

    async def go_on(self, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
        """Go on with a member whose lead was gone: its process if that lives, else a new one. Raises as `start`."""
        ...

    async def clear(self, life: Life) -> None:
        """End what still runs of a member that is over. Raises CannotStart when its place does not answer."""
        ...
