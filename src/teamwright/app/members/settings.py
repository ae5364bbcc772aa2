"""The settings of members' places, from the values of settings files; an error names file and key.

What a value may be by its kind is checked in `settings.keys`. Knows no layer and no trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from teamwright.app.settings.fields import filled
from teamwright.app.settings.files import bad_settings
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.teams.places.choosing import AUTO, IN_PROCESS, TMUX
from teamwright.teams.places.recipe import DETACHED, BadRecipe, Recipe, recipes_of
from teamwright.teams.places.settings import PlacesSettings
from teamwright.teams.places.shipped import shipped_recipes

BACKEND, RECIPES = "members.backend", "members.recipes"
BACKENDS = (AUTO, IN_PROCESS, TMUX, DETACHED)
"""Backends that need no recipe."""


def places_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> PlacesSettings:
    """Of members' places. `origins` names the file, or the flag, of each value.

    Raises CannotStart (`bad-settings`) with file and key, UsageError for a flag.
    """
    recipes = _recipes(values, origins)
    made = filled(PlacesSettings(recipes=recipes), "places", values)
    backend = made.backend
    if backend not in BACKENDS and backend not in recipes and backend not in shipped_recipes():
        known = [*BACKENDS, *{**shipped_recipes(), **recipes}]
        raise _no_such(origins.get(BACKEND, ""), BACKEND, f"{backend!r} is no backend for members", backend, known)
    return made


def _recipes(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Recipe]:
    try:
        return recipes_of(values.get(RECIPES, {}))
    except BadRecipe as problem:
        do = f"; {problem.do}" if problem.do else ""
        raise bad_settings(Path(origins[RECIPES]), f"{problem.what}{do}", f"{RECIPES}.{problem.key}") from None


def _no_such(origin: str, key: str, what: str, said: str, known: list[str]) -> TeamwrightError:
    near = get_close_matches(said, known, 1)
    if not origin.startswith("--"):
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return bad_settings(Path(origin), f"{what}; {hint}", key)
    return UsageError(
        "usage",
        what,
        looked_at=[("flag", origin), ("backends", ", ".join(known))],
        do=[f"did you mean {near[0]}?"] if near else [],
        note="nothing was started",
    )
