"""Changes of one value in one of our settings files: validated as in a run, with the rest of the file kept.

A file is written whole with two-space indentation and renamed into place. A value that a person writes into a trusted
repository is trusted. Files of the other product are never written. Depends on settings files and trust.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from teamwright.config.settings.files import (
    SettingsFiles,
    SettingsLayer,
    bad_settings,
    is_user_only_variable,
    parse_layer,
    read_layer,
    require_inside,
    write_settings,
)
from teamwright.config.settings.keys import RENAMED_KEYS, SettingKey, setting_keys
from teamwright.config.settings.merge import OWN_ONLY
from teamwright.config.settings.setting_parts import reason
from teamwright.config.settings.show import require_key, survey_layer
from teamwright.config.trust import TrustStore, repository_of, require_person
from teamwright.config.trust_entries import layer_entries
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.storage.locks import hold_exclusive
from teamwright.storage.paths import Home, make_private

Target: TypeAlias = Literal["user", "project", "local"]

_PLACES = {"user": "userSettings", "project": "projectSettings", "local": "localSettings"}
_PARTS = frozenset({"env", "hooks", "mcpServers", "providers", "prices", "members.adapters", "members.commands"})
"""Keys that contain an object, whose parts can be named after a dot."""

LOCK = "settings.lock"
"""Name of the file in the home that is locked during a change of a settings file."""

_ABSENT: Any = object()
"""A marker in the place of a value: the key is removed."""


class SettingChange(Struct, frozen=True):
    """The result of a change: the file, whether its content changed, and whether the value waits for trust."""

    key: str
    file: str
    changed: bool
    waits: bool = False


class SettingTarget(Struct, frozen=True):
    """The target of a change: the directory's repository and one of its files, or the user's file."""

    home: Home
    cwd: Path
    target: Target = "user"


def set_value(change: SettingTarget, name: str, text: str) -> SettingChange:
    """Set a key to the text that a person typed. `env.NAME` and the like name one part of a key with an object.

    Raises UsageError for an invalid key or value, CannotStart (`bad-settings`) for an unreadable file, TeamRefused for
    a file outside its directory, StorageError.
    """
    require_person(change.home, "changes settings", f"config set {name}"[:100])
    key, part = _split(name)
    value = parse_value(setting_keys()[key], name, text, part=bool(part))
    return _change(change, key, part, value)


def unset_value(change: SettingTarget, name: str) -> SettingChange:
    """Remove a key from the file, and objects that become empty. Raises as `set_value` does."""
    require_person(change.home, "changes settings", f"config unset {name}"[:100])
    key, part = _split(name)
    return _change(change, key, part, _ABSENT)


def parse_value(key: SettingKey, name: str, text: str, *, part: bool = False) -> Any:
    """Return the value of a text: parsed JSON, else the text itself. Raises UsageError.

    A list may also be given as one text, which is its only item.
    """
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError):
        read = text
    if part:
        return cast("Any", read) if isinstance(read, dict | list) else text
    candidates = [read, text]
    if key.adds_up:
        candidates.append([text])
    for value in candidates:
        if key.fits(value):
            return cast("Any", value)
    raise UsageError(
        "usage",
        f"{name} must be {key.expected}",
        looked_at=[("given", text[:80])],
        do=[f"teamwright config set {name} {key.sample}"],
        note="nothing was changed",
    )


def _split(name: str) -> tuple[str, str]:
    """Return the key, by its present name, and the named part of it. Raises UsageError naming the nearest."""
    for old, new in RENAMED_KEYS.items():
        if name == old or name.startswith(f"{old}."):
            name = new + name.removeprefix(old)
    for key in _PARTS:
        if name.startswith(f"{key}.") and name != f"{key}.":
            return key, name.removeprefix(f"{key}.")
    require_key(name)
    return name, ""


def _change(change: SettingTarget, key: str, part: str, value: Any) -> SettingChange:
    """Set a key, or one part of it, to this value; `_ABSENT` removes it."""
    root = repository_of(change.cwd)
    path, origin = SettingsFiles(change.home, root).file_of(_PLACES[change.target])
    full_key = f"{key}.{part}" if part else key
    if origin.of_repository:
        _require_allowed(key, part, full_key)
        require_inside(root, path)
    make_private(change.home.own)
    with hold_exclusive(change.home.own / LOCK, path):
        before = read_layer(path, origin)
        content = {} if before is None else cast("dict[str, Any]", json.loads(json.dumps(before.raw)))
        renamed = _rename_old_key(content, key)
        names = (*key.split("."), *([part] if part else []))
        changed = _remove_from(content, names) if value is _ABSENT else _set_in(content, names, value, path)
        if not changed and not renamed:
            return SettingChange(full_key, str(path), False)
        layer = _checked(SettingsLayer(path, origin, text=json.dumps(content)), before, root, key)
        write_settings(root, path, origin, content)
        waits = value is not _ABSENT and not _trusted(change.home, root, layer, before)
        return SettingChange(full_key, str(path), True, waits)


def _require_allowed(key: str, part: str, full_key: str) -> None:
    """Raise UsageError for a value that a repository must not set, by any author."""
    own = setting_keys()[key].user_only or (key == "env" and part and is_user_only_variable(part))
    if not own:
        return
    why = "a repository is read by everybody who works in it, and may not decide this for them"
    raise UsageError(
        "usage",
        f"{full_key} is taken from your own settings only",
        looked_at=[("why", why)],
        do=[f"teamwright config set --user {full_key} …"],
        note="nothing was changed",
    )


def _set_in(content: dict[str, Any], names: tuple[str, ...], value: Any, path: Path) -> bool:
    """Set a value in nested objects. Returns True when that changed anything."""
    before = json.dumps(content)
    place = content
    for name in names[:-1]:
        below: Any = place.setdefault(name, {})
        if not isinstance(below, dict):
            raise bad_settings(path, f"{name} is not an object")
        place = cast("dict[str, Any]", below)
    place[names[-1]] = value
    return json.dumps(content) != before


def _rename_old_key(content: dict[str, Any], key: str) -> bool:
    """Move a value with the earlier name of this key to the present name; a value that has it stays. Returns True when
    the file had the earlier name."""
    old = next((old for old, new in RENAMED_KEYS.items() if new == key), "")
    *above, name = old.split(".")
    place: Any = content
    for part in above:
        place = cast("dict[str, Any]", place).get(part) if isinstance(place, dict) else None
    if not old or not isinstance(place, dict) or name not in place:
        return False
    value = cast("dict[str, Any]", place).pop(name)
    cast("dict[str, Any]", place).setdefault(key.rpartition(".")[2], value)
    return True


def _remove_from(content: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Remove a value from nested objects. Returns True when it existed."""
    name = names[0]
    if name not in content:
        return False
    if len(names) == 1:
        del content[name]
        return True
    below = content[name]
    existed = isinstance(below, dict) and _remove_from(cast("dict[str, Any]", below), names[1:])
    if existed and not below:
        del content[name]
    return existed


def _checked(after: SettingsLayer, before: SettingsLayer | None, root: Path, key: str) -> SettingsLayer:
    """Return the layer after the change. Raises UsageError for a value that a run would refuse or leave out."""
    try:
        layer = parse_layer(after.path, after.origin, after.text)
    except TeamwrightError as refused:
        raise _invalid(key, reason(refused)) from None
    known = [] if before is None else _problems(before, root, key)
    new = [problem for problem in _problems(layer, root, key) if problem not in known]
    if new:
        raise _invalid(key, new[0])
    return layer


def _problems(layer: SettingsLayer, root: Path, key: str) -> list[str]:
    """Return the reasons why parts of this key would not take effect."""
    found = [part for part in survey_layer(layer, root) if part.key == key and part.state in ("broken", "ignored")]
    return [" ".join(f"{part.name if part.name != part.value else ''} {part.why}".split()) for part in found]


def _invalid(key: str, why: str) -> UsageError:
    what = f"{key} {why}" if why == OWN_ONLY else f"{key} cannot be set so: {why}"
    return UsageError("usage", what, note="nothing was changed")


def _trusted(home: Home, root: Path, layer: SettingsLayer, before: SettingsLayer | None) -> bool:
    """Trust exactly the written value if the repository is trusted for good. Returns True when it takes effect next
    time.
    """
    if not layer.origin.of_repository:
        return True
    known = {(entry.key, entry.digest) for entry in ([] if before is None else layer_entries(before, root))}
    new = [entry for entry in layer_entries(layer, root) if (entry.key, entry.digest) not in known]
    return not new or TrustStore.load(home).give_also(root, new)
