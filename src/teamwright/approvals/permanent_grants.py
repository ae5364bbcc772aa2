"""Permanent grants: permission updates of a person, saved in a settings file without changing its other entries.

The checkout's local file is kept out of git by `.git/info/exclude`. A grant that is written into a trusted repository
is trusted as written; elsewhere it takes effect once the repository is trusted. Depends on settings files and trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from teamwright.config.settings.settings_files import SettingsOrigin, bad_settings, read_layer
from teamwright.config.settings.writable_files import SettingsFiles, require_inside, write_settings
from teamwright.config.trust_store import TrustStore
from teamwright.config.trust_survey import entry_of
from teamwright.permissions.verdict import PermissionUpdate

_KEYS = {"addDirectories": "additionalDirectories", "setMode": "defaultMode"}


def save_grant(places: SettingsFiles, update: PermissionUpdate) -> str:
    """Write the update into its settings file, atomically. Return a sentence that says what was saved.

    Raises CannotStart (`bad-settings`) for a file that cannot be read, TeamRefused for a file outside the expected
    directories, and StorageError. The file is unchanged after an error.
    """
    path, origin = places.file_of(update.destination)
    if origin.of_repository:
        require_inside(places.root, path)
    key, values = _key(update), list(update.rules or update.directories) or [update.mode]
    content = _read(path)
    permissions = content.setdefault("permissions", {})
    if not isinstance(permissions, dict):
        raise bad_settings(path, "permissions is not an object")
    _put(cast("dict[str, Any]", permissions), key, values, path, one=update.kind == "setMode")
    write_settings(places.root, path, origin, content)
    trusted = not origin.of_repository or _trust(places, path, origin, key, values)
    later = "" if trusted else "; it takes effect when the repository is trusted: teamwright trust"
    return f"saved in {path}: permissions.{key} {', '.join(values)}{later}"


def _key(update: PermissionUpdate) -> str:
    return _KEYS.get(update.kind, update.behavior)


def _put(permissions: dict[str, Any], key: str, values: Sequence[str], path: Path, *, one: bool) -> None:
    if one:
        permissions[key] = values[0]
        return
    there = permissions.setdefault(key, [])
    if not isinstance(there, list):
        raise bad_settings(path, f"permissions.{key} is not a list")
    listed = cast("list[Any]", there)
    listed += [value for value in values if value not in listed]


def _read(path: Path) -> dict[str, Any]:
    """Return the file's object in its order, empty without a file. It is checked like any settings file."""
    layer = read_layer(path, SettingsOrigin.USER)
    return {} if layer is None else dict(layer.raw)


def _trust(places: SettingsFiles, path: Path, origin: SettingsOrigin, key: str, values: Sequence[str]) -> bool:
    """Trust exactly the written values if the repository is permanently trusted. Return True when they take effect."""
    layer = read_layer(path, origin)
    if layer is None:
        return False
    name = f"permissions.{key}"
    single = key == "defaultMode"
    entries = [entry_of(layer, places.root, name, "" if single else value, value) for value in values]
    return TrustStore.load(places.home).give_also(places.root, entries)
