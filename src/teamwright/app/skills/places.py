"""The shelf of a session: a person's own skills and commands, then the repository's as far as they are trusted.

An entry of a repository that nobody trusted is not even opened; one that was changed since it was trusted is not used,
also when that happened while the session ran. Knows settings and trust; runs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from teamwright.app.agents.plugins import Plugin
from teamwright.app.settings.model import Settings
from teamwright.app.trust.store import TrustState
from teamwright.app.trust.survey import TrustEntry, asset_digest, asset_places
from teamwright.skills.finding import SKILL_FILE, Place, find
from teamwright.skills.recipe import Kind, Recipe
from teamwright.skills.shelf import Shelf
from teamwright.storage.paths import Home

TOLD = 5
"""Problems that are told one by one at a start; the rest is counted."""

YOURS = "yours"


def shelf_of(settings: Settings, home: Home, trust: TrustState, plugins: Iterable[Plugin] = ()) -> Shelf:
    """The skills and commands of a run. `plugins` are those that a flag gave. Never raises."""
    if not settings.skills:
        return Shelf()
    recipes: list[Recipe] = []
    problems: list[str] = []
    own, theirs = user_places(home, settings.compat), repository_places(trust, settings.compat)
    known = {os.path.realpath(place.directory) for place in own}
    parts = [place for plugin in plugins for place in plugin_places(plugin)]
    for place in (*own, *(one for one in theirs if os.path.realpath(one.directory) not in known), *parts):
        found = find(place)
        recipes += found.recipes
        problems += found.problems
    used = [recipe for recipe in recipes if recipe.name.lower() not in settings.skills_off]
    return Shelf(tuple(used), tuple(problems), partial(_changed, trust), _untrusted(settings, trust))


def _untrusted(settings: Settings, trust: TrustState) -> frozenset[str]:
    """Names of the repository's skills and commands that nobody trusted, but for those that are switched off."""
    names = {one.name.lower() for one in trust.entries if one.kind in {"skill", "command"} and not trust.allows(one)}
    return frozenset(names - set(settings.skills_off))


def user_places(home: Home, compat: bool) -> list[Place]:
    """A person's own directories, the first that counts first."""
    users = Path(os.path.expanduser("~"))
    found = [_place("skill", home.ours / "skills", YOURS)]
    if compat:
        found.append(_place("skill", users / ".claude" / "skills", f"{YOURS}, .claude"))
    found.append(_place("skill", users / ".agents" / "skills", f"{YOURS}, .agents"))
    found.append(_place("command", home.ours / "commands", YOURS))
    if compat:
        found.append(_place("command", users / ".claude" / "commands", f"{YOURS}, .claude"))
    return found


def repository_places(trust: TrustState, compat: bool) -> list[Place]:
    """A repository's directories, of which only trusted entries may be looked at."""
    allowed = {entry.file for entry in trust.entries if entry.kind in {"skill", "command"} and trust.allows(entry)}
    return [
        Place(kind, trust.root / place, place, trust.root, may=lambda name, place=place: f"{place}/{name}" in allowed)
        for kind, place in asset_places(compat)
    ]


def plugin_places(plugin: Plugin) -> list[Place]:
    """The places of a plugin, whose names begin with the plugin's. One of them may be a single skill, or a command."""
    label, prefix = f"plugin {plugin.name}", f"{plugin.name}:"
    kinds: list[tuple[Kind, tuple[Path, ...]]] = [("skill", plugin.skills), ("command", plugin.commands)]
    found: list[Place] = []
    for kind, places in kinds:
        for place in places:
            if place.is_file() or (place / SKILL_FILE).is_file():
                only = place.name
                found.append(
                    Place(kind, place.parent, label, plugin.path, prefix, lambda name, only=only: name == only)
                )
            else:
                found.append(Place(kind, place, label, plugin.path, prefix))
    return found


def shelf_warnings(shelf: Shelf) -> list[str]:
    """What is odd about skills and commands, in a few lines."""
    told = [*shelf.problems[:TOLD]]
    left = len(shelf.problems) - len(told)
    return [*told, *([f"{left} more lines like these about skills and commands"] if left else [])]


def _place(kind: Kind, directory: Path, label: str) -> Place:
    return Place(kind, directory, label)


def _changed(trust: TrustState, recipe: Recipe) -> str:
    """Why a recipe of a repository may not be used any more; empty when it may."""
    entry = _entry_of(trust, recipe) if recipe.of_repository else None
    if not recipe.of_repository or recipe.place.startswith("plugin "):
        return ""
    if entry is not None and trust.allows(entry) and asset_digest(trust.root / entry.file) == entry.digest:
        return ""
    return (
        f"the {recipe.kind} {recipe.name} was changed since it was trusted: a person looks at it with teamwright trust"
    )


def _entry_of(trust: TrustState, recipe: Recipe) -> TrustEntry | None:
    """The entry of trust that a recipe belongs to: what lies in its directory at the top."""
    place = trust.root / recipe.place
    try:
        top = recipe.file.relative_to(place).parts[0]
    except (ValueError, IndexError):
        return None
    return next((entry for entry in trust.entries if entry.file == f"{recipe.place}/{top}"), None)
