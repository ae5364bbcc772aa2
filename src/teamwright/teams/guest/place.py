"""A member's place on a roster that another program leads: found or made, kept, and given up at the end.

It says there whether it is in a turn, puts itself back when others write over it, and notes who else is there. Nobody
else's entry is touched. Knows config.json; does not know what the member does.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.roster import Member, TeamConfig
from teamwright.teams.team import Team

MOST_REPAIRS = 6
"""So often a minute it puts itself back; whoever overwrites it more often wins for the rest of the minute."""

PATIENCE_S = 1.0
"""A roster that is missing may be on its way: only after so long its team counts as removed."""

AGAIN_S = 2.0
"""After so long a roster that could not be read or written is tried again."""

_MINUTE_S = 60.0


class RosterPlace:
    """The place of the member of this name. `say` tells people, by level.

    `on_roster` is called with each roster that was read, with None once the team's files are gone.
    """

    def __init__(self, team: Team, name: str, say: Callable[[str, str], None]) -> None:
        self.on_roster: Callable[[TeamConfig | None], None] = _nobody
        self.entry: Member | None = None
        self._team, self._name, self._say = team, name, say
        self._active: bool | None = None
        self._dirty = asyncio.Event()
        self._repairs: deque[float] = deque()
        self._troubled = False
        self._again: asyncio.TimerHandle | None = None
        self._keeping: asyncio.Task[None] | None = None

    # ── coming ────────────────────────────────────────────────────────────────────────────────────────────────

    async def take(self, wanted: Member) -> Member:
        """Be on the roster: by the entry that is there, else by this one. Raises LockTimeout, StorageError."""

        def taken(config: TeamConfig) -> TeamConfig:
            return config if config.find(self._name) is not None else config.with_member(wanted)

        config = await self._team.roster.change(taken)
        self.entry = config.find(self._name) or wanted
        self._active = self.entry.is_active
        self._note(config)
        return self.entry

    def keep(self) -> None:
        """Look after it from now on."""
        self._keeping = asyncio.create_task(self._keep(), name=f"place of {self._name}")
        self.noticed()

    # ── being there ───────────────────────────────────────────────────────────────────────────────────────────

    def noticed(self) -> None:
        """The roster may have changed."""
        self._dirty.set()

    def at_work(self, active: bool) -> None:
        """It is in a turn from now on, or no more; of one that never was nothing is said."""
        if self._active is not active and (active or self._active is not None):
            self._active = active
            self._dirty.set()

    async def _keep(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._look()
            except TeamwrightError as problem:
                if problem.slug == "unknown-team" and await self._gone():
                    self.on_roster(None)
                    continue
                if not self._troubled:
                    self._troubled = True
                    self._say(f"the team's roster cannot be used just now: {problem.what}", "warning")
                self._later(AGAIN_S)

    async def _gone(self) -> bool:
        await asyncio.sleep(PATIENCE_S)
        return not self._team.roster.path.exists()

    async def _look(self) -> None:
        config = await self._team.roster.read()
        found = config.find(self._name)
        if found is None and not self._may_repair():
            return
        if found is None or found.is_active != self._active:
            config = await self._team.roster.change(self._put_right)
            if found is None:
                self._say(f"{self._name} put itself back on the roster: another program had overwritten it", "info")
        self.entry = config.find(self._name)
        self._note(config)
        if self._troubled:
            self._troubled = False
            self._say("the team's roster can be used again", "info")

    def _put_right(self, config: TeamConfig) -> TeamConfig:
        entry = config.find(self._name) or self.entry
        return config if entry is None else config.with_member(replace(entry, is_active=self._active))

    def _may_repair(self) -> bool:
        now = time.monotonic()
        while self._repairs and now - self._repairs[0] > _MINUTE_S:
            self._repairs.popleft()
        if len(self._repairs) < MOST_REPAIRS:
            self._repairs.append(now)
            return True
        if self._again is None:
            self._say(f"another program keeps taking {self._name} off the roster: it waits for a minute", "warning")
        self._later(_MINUTE_S - (now - self._repairs[0]) + 0.1)
        return False

    def _later(self, seconds: float) -> None:
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(seconds, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        self.noticed()

    def _note(self, config: TeamConfig) -> None:
        """Everybody else on it is run by other programs, as far as this process knows."""
        self._team.outside.strangers = {one.name.lower() for one in config.teammates if one.name != self._name}
        self.on_roster(config)

    # ── going ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def rest(self) -> None:
        """Look after it no more."""
        if self._again is not None:
            self._again.cancel()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})

    async def give_up(self) -> None:
        """Take the own entry off, and no other; fine where there is none. Raises LockTimeout, StorageError."""
        try:
            await self._team.roster.change(lambda config: config.without(self._name))
        except TeamwrightError as problem:
            if problem.slug != "unknown-team":
                raise


def _nobody(_config: TeamConfig | None) -> None:
    """Nobody is told."""
