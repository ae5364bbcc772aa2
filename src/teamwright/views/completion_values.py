"""Values for completion from tables: models, services, backends, levels of effort, agent types, settings.

Each table is imported when it is asked for. Depends on the packages with the tables, and on names on disk; asks no
service.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from teamwright.storage.paths import Home
from teamwright.views.names_on_disk import NameOnDisk, agent_types, names_under_setting

OWN = "your own"


def model_names(home: Home) -> Iterator[NameOnDisk]:
    """Yield values of `--model`: aliases, known ids, and the prefixes `provider/`."""
    from teamwright.models.catalog import aliases, known_ids
    from teamwright.models.provider_table import PROVIDERS

    yield from (NameOnDisk(alias, wire) for alias, wire in aliases().items())
    yield from map(NameOnDisk, known_ids())
    for provider in PROVIDERS.values():
        yield from (
            NameOnDisk(f"{provider.id}/{wire}") for wire in known_ids(provider.id) if provider.id != "anthropic"
        )
        yield NameOnDisk(f"{provider.id}/", provider.title)
    yield from (NameOnDisk(f"{name}/", OWN) for name in names_under_setting(home, "providers"))
    yield from (NameOnDisk(name, "your own price") for name in names_under_setting(home, "prices"))


def provider_names(home: Home) -> Iterator[NameOnDisk]:
    """Yield model services."""
    from teamwright.models.provider_table import PROVIDERS

    yield from (NameOnDisk(row.id, row.title) for row in PROVIDERS.values())
    yield from (NameOnDisk(name, OWN) for name in names_under_setting(home, "providers"))


def backend_names(home: Home) -> Iterator[NameOnDisk]:
    """Yield backends of members."""
    from teamwright.backends.terminal_adapter import shipped_adapters

    yield from map(NameOnDisk, ("auto", "in-process", "tmux", "detached"))
    yield from (NameOnDisk(name, OWN) for name in names_under_setting(home, "members", "adapters"))
    yield from (NameOnDisk(name, "adapter") for name in shipped_adapters())


def agent_type_names(home: Home, cwd: Path) -> Iterator[NameOnDisk]:
    """Yield agent types: those that files define here, and the built-in ones."""
    from teamwright.agent.agent_type import built_in_types

    yield from map(NameOnDisk, agent_types(home, cwd))
    yield from (NameOnDisk(name, "built in") for name in built_in_types())


def effort_levels() -> list[NameOnDisk]:
    """Return the levels of effort."""
    from teamwright.models.effort import LEVELS

    return [NameOnDisk(level) for level in LEVELS]


def setting_names() -> list[NameOnDisk]:
    """Return the settings by their names in a file."""
    from teamwright.config.settings.setting_keys import KEYS

    return [NameOnDisk(name, key.meaning) for name, key in KEYS.items()]


def setting_values(home: Home, name: str) -> list[NameOnDisk]:
    """Return the allowed values of a setting; empty for unknown settings and those with free values."""
    from teamwright.config.settings.setting_keys import KEYS

    if name not in KEYS:
        return []
    if KEYS[name].kind == "bool":
        return [NameOnDisk("true"), NameOnDisk("false")]
    lists = {"model": model_names, "members.backend": backend_names}
    found = (
        lists[name](home)
        if name in lists
        else effort_levels()
        if name == "effort"
        else map(NameOnDisk, KEYS[name].words)
    )
    return list(found)


def home_named(root: str | None) -> Home:
    """Return the home of that path, else the environment's, else the user's own. Nothing is created there.

    Raises CannotStart (`read-only-home`) when it cannot be read.
    """
    from teamwright.storage.paths import find_home

    return find_home(root).require_readable()
