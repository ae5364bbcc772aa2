"""Where members of a session may live: what the settings name, or what is found here, and the places by kind.

Looks for what there is when it is asked, and makes a place when one is first chosen. Knows settings and places;
starts nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from teamwright.teams.places.choosing import AUTO, IN_PROCESS, TMUX, Choice, Surroundings, which_place
from teamwright.teams.places.custom import Custom, why_not
from teamwright.teams.places.detached import Detached
from teamwright.teams.places.place import Place, Spot
from teamwright.teams.places.recipe import DETACHED, Recipe
from teamwright.teams.places.settings import PlacesSettings
from teamwright.teams.places.shipped import shipped_recipes
from teamwright.teams.places.tmux import Tmux, TmuxSettings
from teamwright.teams.places.tmux_server import Found, find_tmux


class Places:
    """The places of one session.

    Parameters: `environ`, the lead's environment; `at_terminal`, whether a person sits at a terminal of ours; `logs`,
    the directory for the output of members without a terminal.
    """

    def __init__(
        self, environ: Mapping[str, str], settings: PlacesSettings, *, logs: Path, at_terminal: bool = False
    ) -> None:
        self.settings = settings
        self.choice: Choice | None = None
        """What was chosen last, and why."""
        self._environ = environ
        self._at_terminal = at_terminal
        self._logs = logs
        self._made: dict[str, Place] = {}
        self._found: Found | None = None
        self._looking = asyncio.Lock()

    @property
    def why(self) -> str:
        """Why the last choice was made, a clause; empty before there was one."""
        return self.choice.why if self.choice is not None else ""

    @property
    def grace_s(self) -> float:
        """How long a member's process stays when its lead is gone, in seconds."""
        return self.settings.grace_s

    @cached_property
    def recipes(self) -> Mapping[str, Recipe]:
        """All recipes by name; the user's own stand for shipped ones of their name."""
        return {**shipped_recipes(), **self.settings.recipes}

    async def choose(self, wanted: str = "") -> tuple[str, Place] | None:
        """The backend and its place for a member, as it was wanted or as settings say; None: in the lead's process.

        Raises UsageError for a name that nothing has, CannotStart for one that cannot be used here.
        """
        self.choice = await self.would_choose(wanted)
        if self.choice.place == IN_PROCESS:
            return None
        return self.choice.place, self._place(self.choice.place)

    async def require_named(self) -> None:
        """Check the backend that the settings name. Raises CannotStart when it cannot be used here."""
        if self.settings.backend not in {AUTO, IN_PROCESS}:
            await self.would_choose()

    async def would_choose(self, wanted: str = "") -> Choice:
        """The same without making anything."""
        setting = wanted or self.settings.backend
        if setting == AUTO:  # where tmux has no say it need not be looked for
            first = which_place(AUTO, Surroundings(self._environ, self._at_terminal))
            if first.place == IN_PROCESS:
                return first
        no_tmux = (await self.tmux()).why_not if setting in {AUTO, TMUX} else ""
        recipes = {name: why_not(recipe, self._environ) for name, recipe in self.recipes.items()}
        found = Surroundings(self._environ, self._at_terminal, no_tmux, {DETACHED: "", **recipes})
        return which_place(setting, found)

    async def place_of(self, spot: Spot) -> Place | None:
        """The place of that kind, to probe or close what was started there; None when there is none any more."""
        if spot.kind == TMUX:
            return None if (await self.tmux()).why_not else self._place(TMUX)
        return self._place(spot.kind) if spot.kind == DETACHED or spot.kind in self.recipes else None

    async def tmux(self) -> Found:
        """The tmux of this machine, looked for once."""
        async with self._looking:
            if self._found is None:
                self._found = await find_tmux(self._environ)
        return self._found

    def _place(self, kind: str) -> Place:
        if kind not in self._made:
            self._made[kind] = self._new(kind)
        return self._made[kind]

    def _new(self, kind: str) -> Place:
        if kind == DETACHED:
            return Detached(self._logs)
        if kind != TMUX:
            return Custom(self.recipes[kind], self._environ)
        settings = self.settings
        look = TmuxSettings(layout=settings.layout, lead_percent=round(settings.lead_share * 100))
        return Tmux(self._found.program if self._found is not None else TMUX, self._environ, look)
