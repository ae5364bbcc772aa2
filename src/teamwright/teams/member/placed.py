"""A member that a process of its own runs, started in a place: what it is called, and how its place is closed.

Below it: the member as its team sees it. Refuses to know which program runs it, and what that says.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.values import dataclass
from teamwright.teams.member.mate import Mate
from teamwright.teams.places.place import Place

_LAST_LINE_MOST = 300


@dataclass(slots=True, kw_only=True, eq=False)
class Placed(Mate):
    """One that lives elsewhere. `who` is its name, `said_mode` the mode that it was given or says it is in."""

    who: str
    transcript: Path
    place: Place
    said_mode: str = ""

    @property
    def name(self) -> str:
        """See Mate."""
        return self.who

    @property
    def ledger(self) -> Path:
        """See Mate. A program that is not ours writes none there."""
        return self.transcript

    async def _close_place(self) -> str:
        """Close it with all that runs there. Empty, or that it may still run, and why."""
        try:
            if self.spot is not None:
                await self.place.close(self.spot)
        except TeamwrightError as problem:
            return f"{self.name} may still run: {problem.what}"
        return ""

    async def _last_line(self) -> str:
        """`: ` and the last line that stands there; empty when nothing does."""
        said = (await self.place.last_words(self.spot)).strip() if self.spot is not None else ""
        return f": {said.splitlines()[-1].strip()[:_LAST_LINE_MOST]}" if said else ""
