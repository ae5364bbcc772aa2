"""What the team needs from above to start other programs as members. Filled in `app`."""

from __future__ import annotations

from typing import Protocol

from teamwright.protocol.roster import Member
from teamwright.protocol.values import dataclass
from teamwright.teams.incarnation import Life
from teamwright.teams.places.place import Launch, Place, Spot
from teamwright.teams.spec import SpawnSpec


@dataclass(frozen=True, slots=True)
class Start:
    """How a program is started. `within_s`: how long it may take to read its first prompt, in seconds.

    `mode` is the permission mode that it is given, as people are shown it.
    """

    launch: Launch
    mode: str
    within_s: float


class Commanding(Protocol):
    """The commands that a person set for members."""

    async def choose(self, spec: SpawnSpec) -> tuple[str, Place]:
        """The backend of a new member and its place.

        Raises UsageError for a command that nobody set, or a member that the program could not be held to; CannotStart
        when the program, its root or a place is not there.
        """
        ...

    async def place_of(self, spot: Spot) -> Place | None:
        """The place of that kind, to probe or to close it; None when there is none any more."""
        ...

    def start(self, member: Member, life: Life) -> Start:
        """Everything that its program is started with. Raises CannotStart."""
        ...
