"""For good: what a person granted goes into the settings file that was named, beside all that is in it.

The checkout's own file stays out of git through `.git/info/exclude`. What is written into a trusted repository is
trusted as it was written; elsewhere it takes effect once the repository is. Knows settings files and trust.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from teamwright.app.settings.files import Origin, bad_settings, read_layer
from teamwright.app.trust.store import Trust
from teamwright.app.trust.survey import entry_of
from teamwright.permissions.verdict import Update
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import storage_error, write_atomic
from teamwright.storage.gitdir import common_dir, find_git_dir
from teamwright.storage.paths import Home

_KEYS = {"addDirectories": "additionalDirectories", "setMode": "defaultMode"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where settings are kept: the user's under this home, a repository's under `root`."""

    home: Home
    root: Path

    def of(self, destination: str) -> tuple[Path, Origin]:
        """The file of a destination that is kept for good, and whose words it holds."""
        ours = self.root / ".teamwright"
        if destination == "userSettings":
            return self.home.settings, Origin.USER
        if destination == "projectSettings":
            return ours / "settings.json", Origin.SHARED
        return ours / "settings.local.json", Origin.LOCAL


def keep(places: Places, update: Update) -> str:
    """Write the update into its file, atomically. Returns what was done, in a sentence.

    Raises CannotStart (`bad-settings`) for a file that cannot be read, TeamRefused for one that lies elsewhere, and
    StorageError; the file is as it was then.
    """
    path, origin = places.of(update.destination)
    if origin.of_repository:
        _require_inside(places.root, path)
    key, values = _key(update), list(update.rules or update.directories) or [update.mode]
    content = _read(path)
    permissions = content.setdefault("permissions", {})
    if not isinstance(permissions, dict):
        raise bad_settings(path, "permissions is not an object")
    _put(cast("dict[str, Any]", permissions), key, values, path, one=update.kind == "setMode")
    mode = _mode_of(path)
    write_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
    if origin is Origin.SHARED:
        os.chmod(path, mode)  # it belongs to everybody who works on the repository
    if origin is Origin.LOCAL:
        exclude(places.root, path)
    trusted = not origin.of_repository or _trust(places, path, origin, key, values)
    later = "" if trusted else "; it takes effect when the repository is trusted: teamwright trust"
    return f"saved in {path}: permissions.{key} {', '.join(values)}{later}"


def exclude(root: Path, path: Path) -> None:
    """Keep the file out of git, without touching anything that git tracks. Raises StorageError."""
    found = find_git_dir(root)
    if found is None:
        return
    tree, git_dir = found
    line = f"/{path.relative_to(tree)}" if path.is_relative_to(tree) else ""
    listed = common_dir(git_dir) / "info" / "exclude"
    try:
        before = listed.read_text(errors="replace") if listed.exists() else ""
        if not line or line in before.splitlines():
            return
        listed.parent.mkdir(exist_ok=True)
        with listed.open("a") as file:
            file.write(("" if before.endswith("\n") or not before else "\n") + line + "\n")
    except OSError as problem:
        raise storage_error(problem, listed) from problem


def _key(update: Update) -> str:
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
    """The file as an object, in its order; an empty one when there is none. Checked like any settings file."""
    layer = read_layer(path, Origin.USER)
    return {} if layer is None else dict(layer.raw)


def _require_inside(root: Path, path: Path) -> None:
    """A repository may not lead what is written for it to another place. Raises TeamRefused."""
    place = path.parent
    if os.path.realpath(place) != os.path.join(os.path.realpath(root), place.name) or path.is_symlink():
        what = f"{place} leads out of the repository"
        raise TeamRefused(
            "team-refused", what, looked_at=[("really", os.path.realpath(path))], note="nothing was saved"
        )


def _mode_of(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    return 0o644


def _trust(places: Places, path: Path, origin: Origin, key: str, values: Sequence[str]) -> bool:
    """Trust exactly what was written, if the repository is trusted for good. Whether it takes effect next time."""
    layer = read_layer(path, origin)
    if layer is None:
        return False
    name = f"permissions.{key}"
    single = key == "defaultMode"
    entries = [entry_of(layer, places.root, name, "" if single else value, value) for value in values]
    return Trust.load(places.home).give_also(places.root, entries)
