"""Settings as shown to a person: each value with its file, secrets masked.

Reads the same files as a run, with the stored trust. Changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.config.settings.setting_keys import KEYS, RENAMED_KEYS
from teamwright.config.settings.setting_parts import WHOLE, SettingPart
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings.settings_files import SettingsOrigin
from teamwright.config.settings_files_overview import reads_compat_files, survey_settings
from teamwright.config.settings_merge import settings_places
from teamwright.config.settings_schema import default_of
from teamwright.config.trust_store import TrustStore
from teamwright.protocol.errors import UsageError
from teamwright.protocol.secret_texts import is_secret_name, mask
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.storage.paths import Home

DEFAULT = "default"
"""The file name shown for a default."""

_HIDING = frozenset({"env", "headers"})
"""Objects in a server's entry whose values may be secrets, regardless of their keys."""

_VARIABLE = re.compile(r"\$\{[^}]*\}")
_IN_URL = re.compile(r"(://)[^/@\s]+@|([?&][\w-]*(?:key|token|secret|auth|sig)[\w-]*=)[^&\s]+", re.IGNORECASE)


class SettingsQuery(Struct, frozen=True):
    """The files to read: those of a directory, and the file of `--settings`."""

    home: Home
    cwd: Path
    settings_file: Path | str | None = None


class SettingValue(Struct, frozen=True):
    """One value of one file. `name` is set for keys with several values; `state` is as in `check`.

    `file` is `default` for a default; `line` starts at 1 and is 0 when there is none.
    """

    key: str
    name: str
    value: Any
    file: str
    line: int = 0
    state: str = "used"
    why: str = ""


class SettingsFileView(Struct, frozen=True):
    """One settings file that is read: its origin, and whether it exists."""

    file: str
    owner: str
    exists: bool


def values(query: SettingsQuery, *, defaults: bool = False) -> list[SettingValue]:
    """Return every value of every file, in the order of keys and files, with its state.

    `defaults`: also every key that is not set. Raises CannotStart for the trust file, and for `--settings`.
    """
    flags = SettingFlags(settings_file=query.settings_file)
    cwd = Path(os.path.realpath(query.cwd))
    trust = TrustStore.load(query.home).verdict(cwd, compat=reads_compat_files(query.home, flags))
    parts = survey_settings(query.home, cwd, flags, trust).parts
    found = [_value(part) for part in parts]
    order = {key: at for at, key in enumerate(KEYS)}
    if defaults:
        used_keys = {value.key for value in found if value.state == "used"}
        found += [SettingValue(key, "", default_of(key), DEFAULT) for key in KEYS if key not in used_keys]
    return sorted(found, key=lambda value: order.get(value.key, -1))


def values_of(query: SettingsQuery, key: str) -> list[SettingValue]:
    """Return the values in use for one key: several for a key that adds up. Raises UsageError for an unknown key."""
    require_key(key)
    return [value for value in values(query, defaults=True) if value.key == key and value.state == "used"]


def files(query: SettingsQuery) -> list[SettingsFileView]:
    """Return the settings files that are read here, the farthest first."""
    flags = SettingFlags(settings_file=query.settings_file)
    cwd = Path(os.path.realpath(query.cwd))
    compat = reads_compat_files(query.home, flags)
    root = TrustStore.load(query.home).verdict(cwd, compat=compat).root
    places = settings_places(query.home, root, compat)
    if isinstance(query.settings_file, Path):
        places = [*places, (query.settings_file, SettingsOrigin.GIVEN)]
    return [SettingsFileView(str(path), origin.value, path.exists()) for path, origin in places]


def require_key(key: str) -> None:
    """Raise UsageError naming the nearest for an unknown setting."""
    if key in KEYS:
        return
    if key in RENAMED_KEYS:
        do = [f"write {RENAMED_KEYS[key]}"]
        raise UsageError("usage", f"{key} is called {RENAMED_KEYS[key]} now", do=do, note="nothing was changed")
    below = [name for name in KEYS if name.startswith(f"{key}.")]
    do = did_you_mean(key, KEYS, ["teamwright config list --all shows every key"])
    if below:
        do = [f"name one of them: {', '.join(below[:8])}"]
    raise UsageError("usage", f"{key[:80]!r} is not a setting", do=do, note="nothing was changed")


def _value(part: SettingPart) -> SettingValue:
    value = masked(part.key, part.name, part.value)
    key = part.key if part.key != WHOLE else ""
    return SettingValue(key, part.name, value, str(part.path), part.line, part.state, part.why)


def masked(key: str, name: str, value: Any) -> Any:
    """Return the value with possible secrets masked."""
    if key == "env" and is_secret_name(name):
        return mask(str(value))
    if isinstance(value, str):
        return _IN_URL.sub(lambda found: f"{found[1] or found[2]}…" + ("@" if found[1] else ""), value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_after(before, one) for before, one in zip(["", *items], items, strict=False)]
    if isinstance(value, dict):
        return {str(at): _inner(str(at), one) for at, one in cast("Mapping[Any, Any]", value).items()}
    return value


def _after(before: Any, value: Any) -> Any:
    """Return a list item, masked after `--api-key`, and in `--api-key=VALUE`."""
    if not isinstance(value, str):
        return masked("", "", value)
    flag, equals, secret = value.partition("=")
    if equals and flag.startswith("-") and is_secret_name(_plain(flag)):
        return f"{flag}={mask(secret)}"
    follows = isinstance(before, str) and before.startswith("-") and is_secret_name(_plain(before))
    return mask(value) if follows else masked("", "", value)


def _plain(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _inner(name: str, value: Any) -> Any:
    if name in _HIDING and isinstance(value, dict):
        return {at: _hidden(one) for at, one in cast("Mapping[Any, Any]", value).items()}
    return mask(value) if isinstance(value, str) and is_secret_name(name) else masked("", name, value)


def _hidden(value: Any) -> Any:
    """Mask a value, unless it consists only of names of variables."""
    return value if not isinstance(value, str) or not _VARIABLE.sub("", value) else mask(value)
