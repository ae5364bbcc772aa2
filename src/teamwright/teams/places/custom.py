"""A backend of the settings: its recipe's commands, run as argument lists, bounded in time and output.

The terminal runs the starter, so that the program has its own environment, arguments and directory whatever the
terminal's are. What was started is known by its process; a pane is closed only when it is proved to be ours. Below
are the recipe, the handover and processes. Refuses to know which terminal it is.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from teamwright.protocol.errors import CannotStart
from teamwright.storage.processes.process import Outcome, run_argv
from teamwright.teams.places.handover import Handover, NotTaken, offered
from teamwright.teams.places.place import Launch, Spot
from teamwright.teams.places.processes import (
    family_of,
    process_of,
    runs,
    terminal_of,
    to_its_end,
    until_ended,
)
from teamwright.teams.places.recipe import Recipe, command_of, filled, lists

_END_S = 2.0
_OUTPUT = 1_000_000
_LISTED_WITHIN_S = (0.0, 0.05, 0.1, 0.3, 1.0, 2.0)
"""How long to wait between looks whether a terminal lists what it has just opened."""

_HANDED_ON = frozenset(
    {
        *("COLORTERM", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
        *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
    }
)
_HANDED_ON_BEGINS = ("LC_", "XDG_")


class _Unanswered(Exception):
    """A command of the recipe did not do what it is for; the text says why, `words` what it wrote."""

    def __init__(self, why: str, words: str = "") -> None:
        super().__init__(why)
        self.words = words


def why_not(recipe: Recipe, environ: Mapping[str, str]) -> str:
    """Why this recipe cannot be used here, a clause; empty when nothing speaks against it."""
    for program in recipe.programs:
        if shutil.which(program, path=environ.get("PATH", "")) is None:
            return f"its program is not installed (no {program} in PATH)"
    missing = [name for name in recipe.variables if not environ.get(name)]
    return f"this is not a terminal of this backend ({missing[0]} is not set)" if missing else ""


class Custom:
    """A `Place`. Parameters: `recipe`; `environ`, the lead's environment, of which commands get what is no secret."""

    def __init__(self, recipe: Recipe, environ: Mapping[str, str]) -> None:
        self._recipe = recipe
        wanted = {*_HANDED_ON, *recipe.variables, *recipe.takes}
        handed_on = {
            name: value for name, value in environ.items() if name in wanted or name.startswith(_HANDED_ON_BEGINS)
        }
        self._environ = {**handed_on, **recipe.env}
        self._given = {f"env:{name}": environ.get(name, "") for name in recipe.variables}
        self._opened: list[Spot] = []
        self._opening = asyncio.Lock()

    async def open(self, launch: Launch) -> Spot:
        """Start it as the recipe says; the rest as `Place.open`."""
        try:
            async with offered(launch) as handover:
                return await self._open(launch, handover)
        except NotTaken as problem:
            raise self._cannot_start(launch, str(problem)) from problem
        except _Unanswered as problem:
            raise self._cannot_start(launch, str(problem), problem.words) from problem

    async def alive(self, spot: Spot) -> bool:
        """Whether its process runs; where that cannot be seen, what the recipe's `alive` says.

        Raises CannotStart (`backend`) when that is not answered: then nobody knows.
        """
        if process_of(spot)[0]:
            return runs(spot)
        try:
            return await self._is_there(spot)
        except _Unanswered as problem:
            raise self._unknown(spot, str(problem)) from problem

    async def ended(self, spot: Spot) -> None:
        """Until the program has ended; at once when nobody sees it."""
        await until_ended(spot)

    async def last_words(self, spot: Spot) -> str:
        """Nothing: a recipe has no command for it."""
        return ""

    async def close(self, spot: Spot) -> None:
        """Close it if it is proved to be ours, and end what runs in it; the rest as `Place.close`."""
        family, trouble = family_of(spot), None
        self._opened = [one for one in self._opened if one.facts["mark"] != spot.facts["mark"]]
        try:
            if await self._is_ours(spot):
                if family is not None:
                    family.members()  # whom the end will part from their parents is known by now
                await self._ask(self._recipe.close, self._values(spot))
        except _Unanswered as problem:
            trouble = problem
        if family is not None and (left := await family.end(_END_S)):
            raise self._unknown(spot, f"these processes will not end: {', '.join(str(row.pid) for row in left)}")
        if trouble is None:
            return
        try:
            stays = await self._is_ours(spot)
        except _Unanswered as problem:
            raise self._unknown(spot, str(problem)) from problem
        if stays or family is None:
            raise self._unknown(spot, str(trouble)) from trouble

    async def hide(self, spot: Spot) -> bool:
        """Run the recipe's `hide`; False when it has none, or it is gone. Raises CannotStart (`backend`)."""
        return await self._told(self._recipe.hide, spot)

    async def show(self, spot: Spot) -> bool:
        """Run the recipe's `show`; False when it has none, or it is gone. Raises CannotStart (`backend`)."""
        return await self._told(self._recipe.show, spot)

    async def _told(self, command: Sequence[str], spot: Spot) -> bool:
        try:
            if not command or not await self._is_ours(spot):
                return False
            await self._ask(command, self._values(spot))
        except _Unanswered as problem:
            raise self._unknown(spot, str(problem)) from problem
        return True

    async def _open(self, launch: Launch, handover: Handover) -> Spot:
        recipe = self._recipe
        facts = {"mark": secrets.token_hex(8), **_who(launch)}
        values = {**self._given, **facts, "command": shlex.join(handover.argv)}
        async with self._opening:
            told = await self._make(values, handover.argv)
        try:
            spot = Spot(recipe.name, recipe.id.read(told, values), facts)
        except ValueError as problem:
            raise _Unanswered(f"{recipe.open[0]}: {problem}") from None
        try:
            if recipe.start:
                await self._ask(recipe.start, {**values, "id": spot.id}, handover.argv)
            pid, start = await handover.give(recipe.start_s)
            if pid:
                spot = replace(spot, facts={**facts, "pid": str(pid), "start": start, "tty": terminal_of(pid)})
            await self._require_ours(spot)
        except BaseException:
            await to_its_end(self.close(spot))
            raise
        self._opened.append(spot)
        if recipe.title:
            await self._decorated(spot)
        return spot

    async def _make(self, values: Mapping[str, str], argv: Sequence[str]) -> str:
        """Beside the newest of ours that lives, where the recipe can and the terminal does; else anew."""
        beside = next((one for one in reversed(self._opened) if runs(one)), None)
        if self._recipe.open_beside and beside is not None:
            try:
                return await self._ask(self._recipe.open_beside, {**values, "beside": beside.id}, argv)
            except _Unanswered:
                pass  # it was closed just now, or there is no room
        return await self._ask(self._recipe.open, values, argv)

    async def _decorated(self, spot: Spot) -> None:
        try:
            await self._ask(self._recipe.title, self._values(spot))
        except _Unanswered:
            return  # no reason not to start

    async def _require_ours(self, spot: Spot) -> None:
        for pause in _LISTED_WITHIN_S:
            await asyncio.sleep(pause)
            if await self._is_there(spot):
                return
        wanted = ", ".join(f"{key} {filled(text, self._values(spot))}" for key, text in self._recipe.where.items())
        raise _Unanswered(
            f"{self._recipe.alive[0]} does not list what was started as {spot.id}" + (f" ({wanted})" if wanted else "")
        )

    async def _is_ours(self, spot: Spot) -> bool:
        """Whether what has this id is proved to be what we opened."""
        return (self._recipe.by_mark or runs(spot)) and await self._is_there(spot)

    async def _is_there(self, spot: Spot) -> bool:
        values = self._values(spot)
        done = await self._run(command_of(self._recipe.alive, values))
        if done.exit_code != 0:
            return False
        if not self._recipe.where:
            return True
        try:
            return lists(done.output, {key: filled(text, values) for key, text in self._recipe.where.items()})
        except ValueError:
            raise _Unanswered(f"{self._recipe.alive[0]} prints no JSON", done.output) from None

    async def _ask(self, words: Sequence[str], values: Mapping[str, str], argv: Sequence[str] = ()) -> str:
        """Run one command; what it printed. Raises _Unanswered when it fails."""
        done = await self._run(command_of(words, values, argv))
        if done.exit_code != 0:
            said = done.errors.strip() or done.output.strip()
            raise _Unanswered(f"{words[0]} failed with status {done.exit_code}", said)
        return done.output

    async def _run(self, argv: Sequence[str]) -> Outcome:
        limit = self._recipe.start_s
        try:
            done = await run_argv(argv, Path("/"), self._environ, limit, _OUTPUT)
        except (OSError, ValueError) as problem:
            raise _Unanswered(f"{argv[0]} could not be run: {problem}") from problem
        if done.timed_out:
            raise _Unanswered(f"{argv[0]} did not end within {limit:g} seconds", done.errors)
        return done

    def _values(self, spot: Spot) -> dict[str, str]:
        return {**self._given, "pid": "", "tty": "", **spot.facts, "id": spot.id}

    def _cannot_start(self, launch: Launch, why: str, words: str = "") -> CannotStart:
        return CannotStart(
            "backend",
            f"{launch.name} could not be started in {self._recipe.name}: {why}",
            looked_at=[("wrote", line[:200]) for line in words.splitlines()[-6:] if line.strip()],
            do=[f"see docs/places.md#recipes: members.recipes.{self._recipe.name}"],
            note="nothing is left of it",
        )

    def _unknown(self, spot: Spot, why: str) -> CannotStart:
        return CannotStart("backend", f"{self._recipe.name} {spot.id} cannot be reached: {why}")


def _who(launch: Launch) -> dict[str, str]:
    return {"name": launch.name, "team": launch.team, "session": launch.session, "color": launch.color}
