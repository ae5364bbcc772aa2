"""The recipes that come with the program: one data file, `recipes.json`, with its date and the sources of each."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

from teamwright.teams.places.recipe import Recipe, recipes_of


@cache
def shipped_recipes() -> dict[str, Recipe]:
    """By name, read once a process."""
    return recipes_of(_file()["recipes"])


def seen() -> str:
    """The day on which their facts were looked up, `YYYY-MM-DD`."""
    return str(_file()["seen"])


@cache
def _file() -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(Path(__file__).with_name("recipes.json").read_text("utf-8")))
