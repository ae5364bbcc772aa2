"""Where members of a session may live: what the settings name, or what is found here, and the places by kind.

Looks for what there is once, when the first member is started. Knows settings and places; starts nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from teamwright.teams.places.choosing import AUTO, IN_PROCESS, TMUX, Choice, Surroundings, which_place
from teamwright.teams.places.place import Place, Spot
from teamwright.teams.places.tmux import Tmux, TmuxSettings
from teamwright.teams.places.tmux_server import Found, find_tmux


class Places:
    """The places of one session. `setting` names one, `environ` is the lead's environment; `grace_s` as set."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        setting: str = AUTO,
        at_terminal: bool = False,
        grace_s: float | None = 60.0,
        tmux: TmuxSettings | None = None,
    ) -> None:
        self.setting = setting
        self.grace_s = grace_s
        self.choice: Choice | None = None
        """What was chosen last, and why."""
        self._environ = environ
        self._at_terminal = at_terminal
        self._tmux_settings = tmux
        self._made: dict[str, Place] = {}
        self._found: Found | None = None
        self._looking = asyncio.Lock()

    async def choose(self, wanted: str = "") -> tuple[str, Place] | None:
        """The backend and its place for a member, as it was wanted or as settings say; None: in the lead's process.

        Raises UsageError for a name that nothing has, CannotStart for one that cannot be used here.
        """
        setting = wanted or self.setting
        self.choice = which_place(setting, Surroundings(self._environ, self._at_terminal)) if setting == AUTO else None
        if setting == IN_PROCESS or (self.choice is not None and self.choice.place == IN_PROCESS):
            return None  # then nothing need be looked for
        async with self._looking:
            if self._found is None:
                self._found = await find_tmux(self._environ)
        found = Surroundings(self._environ, self._at_terminal, self._found.why_not)
        self.choice = which_place(setting, found)
        if self.choice.place == IN_PROCESS:
            return None
        return self.choice.place, self._place(self.choice.place)

    async def place_of(self, spot: Spot) -> Place | None:
        """The place of that kind, to probe or close what was started there; None when there is none any more."""
        if spot.kind != TMUX:
            return None
        async with self._looking:
            if self._found is None:
                self._found = await find_tmux(self._environ)
        return None if self._found.why_not else self._place(TMUX)

    def _place(self, kind: str) -> Place:
        if kind not in self._made:
            assert self._found is not None
            self._made[kind] = Tmux(self._found.program, self._environ, self._tmux_settings)
        return self._made[kind]
