"""Words that our own tables know: models, services, backends, levels of effort, kinds of agents, settings.

For completion, so each table loads when it is asked for. Knows the rooms that own the tables, and the names of the
user's own (`names`); asks no service.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from teamwright.app.looking.names import Name, kinds, under_setting
from teamwright.storage.paths import Home

OWN = "your own"


def model_words(home: Home) -> Iterator[Name]:
    """What `--model` takes: aliases, ids that are known, the beginnings `provider/`."""
    from teamwright.models.catalog import aliases, known_ids
    from teamwright.models.providers import PROVIDERS

    yield from (Name(alias, wire) for alias, wire in aliases().items())
    yield from map(Name, known_ids())
    for provider in PROVIDERS.values():
        yield from (Name(f"{provider.id}/{wire}") for wire in known_ids(provider.id) if provider.id != "anthropic")
        yield Name(f"{provider.id}/", provider.title)
    yield from (Name(f"{name}/", OWN) for name in under_setting(home, "providers"))
    yield from (Name(name, "your own price") for name in under_setting(home, "prices"))


def provider_words(home: Home) -> Iterator[Name]:
    """Model services."""
    from teamwright.models.providers import PROVIDERS

    yield from (Name(row.id, row.title) for row in PROVIDERS.values())
    yield from (Name(name, OWN) for name in under_setting(home, "providers"))


def backend_words(home: Home) -> Iterator[Name]:
    """Where members may run."""
    from teamwright.teams.places.shipped import shipped_recipes

    yield from map(Name, ("auto", "in-process", "tmux", "detached"))
    yield from (Name(name, OWN) for name in under_setting(home, "members", "recipes"))
    yield from (Name(name, "recipe") for name in shipped_recipes())


def kind_words(home: Home, cwd: Path) -> Iterator[Name]:
    """Kinds of agents: those that files define here, and those that are built in."""
    from teamwright.agent.definition import built_in

    yield from map(Name, kinds(home, cwd))
    yield from (Name(name, "built in") for name in built_in())


def effort_words() -> list[Name]:
    """Levels of effort."""
    from teamwright.models.effort import LEVELS

    return [Name(level) for level in LEVELS]


def setting_words() -> list[Name]:
    """Settings by their names in a file."""
    from teamwright.app.settings.keys import KEYS

    return [Name(name, key.meaning) for name, key in KEYS.items()]


def value_words(home: Home, name: str) -> list[Name]:
    """What a setting of that name may be, where it is one of some words; empty for other settings, and unknown ones."""
    from teamwright.app.settings.keys import KEYS

    if name not in KEYS:
        return []
    if KEYS[name].kind == "bool":
        return [Name("true"), Name("false")]
    lists = {"model": model_words, "members.backend": backend_words}
    found = lists[name](home) if name in lists else effort_words() if name == "effort" else map(Name, KEYS[name].words)
    return list(found)


def home_named(root: str | None) -> Home:
    """The home that was named, else the one of the environment, else the user's own. Nothing is made there.

    Raises CannotStart (`read-only-home`) when it cannot be read.
    """
    from teamwright.storage.paths import home_of

    return home_of(root).require_readable()
