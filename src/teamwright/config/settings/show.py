"""Settings as shown to a person: each value with its file and state, secrets masked; and their schema and defaults.

Uses the merge of a session with the stored trust; a problem that stops a session is recorded here instead. The JSON
Schema is built from the table of keys: it accepts the entries of our own files, and nothing that causes a warning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.config.model_settings_parser import model_settings
from teamwright.config.settings.files import SettingsLayer, SettingsOrigin
from teamwright.config.settings.keys import RENAMED_KEYS, SettingKey, setting_keys
from teamwright.config.settings.merge import SettingsMerge, reads_other_product, settings_places
from teamwright.config.settings.sections import make_sections
from teamwright.config.settings.setting_parts import WHOLE, SettingPart, reason
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.trust import TrustState, TrustStore
from teamwright.config.trust_entries import layer_entries
from teamwright.protocol.errors import CannotStart, TeamwrightError, UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.protocol.secret_texts import is_secret_name, mask
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
    order = {key: at for at, key in enumerate(setting_keys())}
    if defaults:
        used_keys = {value.key for value in found if value.state == "used"}
        unset = [(name, key.default) for name, key in setting_keys().items() if name not in used_keys]
        found += [SettingValue(name, "", default, DEFAULT) for name, default in unset]
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
    keys = setting_keys()
    if key in keys:
        return
    if key in RENAMED_KEYS:
        do = [f"write {RENAMED_KEYS[key]}"]
        raise UsageError("usage", f"{key} is called {RENAMED_KEYS[key]} now", do=do, note="nothing was changed")
    below = [name for name in keys if name.startswith(f"{key}.")]
    do = did_you_mean(key, keys, ["teamwright config list --all shows every key"])
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
        return [_masked_item(before, one) for before, one in zip(["", *items], items, strict=False)]
    if isinstance(value, dict):
        return {str(at): _masked_field(str(at), one) for at, one in cast("Mapping[Any, Any]", value).items()}
    return value


def _masked_item(before: Any, value: Any) -> Any:
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


def _masked_field(name: str, value: Any) -> Any:
    if name in _HIDING and isinstance(value, dict):
        return {at: _mask_unless_variable(one) for at, one in cast("Mapping[Any, Any]", value).items()}
    return mask(value) if isinstance(value, str) and is_secret_name(name) else masked("", name, value)


def _mask_unless_variable(value: Any) -> Any:
    """Mask a value, unless it consists only of names of variables."""
    return value if not isinstance(value, str) or not _VARIABLE.sub("", value) else mask(value)


class SettingsSurvey(Struct, frozen=True):
    """The parts that were found. `settings` are those that would be used without the broken parts."""

    settings: Settings
    parts: Sequence[SettingPart]
    layers: Sequence[SettingsLayer]


def reads_compat_files(home: Home, flags: SettingFlags) -> bool:
    """Return True when the other product's files are read, also when the file with that setting is unreadable."""
    try:
        return reads_other_product(home, flags)
    except CannotStart:
        return True


def survey_settings(home: Home, cwd: Path, flags: SettingFlags, trust: TrustState) -> SettingsSurvey:
    """Return every part of every file. Raises only for errors in flags."""
    compat = reads_compat_files(home, flags)
    merge = SettingsMerge(trust, tolerant=True)
    merge.files(home, flags, compat)
    merge.flags(flags, cwd)
    _check_sections(merge)
    settings = merge.settings(compat)
    # Parts of these add up; for the others the nearest file decides.
    several = {"hooks", *(name for name, key in setting_keys().items() if key.adds_up)}
    return SettingsSurvey(settings, merge.parts.settled(several), merge.parts.layers)


def survey_layer(layer: SettingsLayer, root: Path) -> Sequence[SettingPart]:
    """Return every part of one file, as if it were the only file and trusted."""
    merge = SettingsMerge(TrustState.as_written(root, layer_entries(layer, root)), tolerant=True)
    merge.layer(layer)
    _check_sections(merge)
    return merge.parts.found


def _check_sections(merge: SettingsMerge) -> None:
    """Have every package validate its values; refused values are recorded and removed."""
    for _ in setting_keys():
        try:
            settings = make_sections(merge.values, merge.origins)
            model_settings(Settings(models=settings.models, origins=merge.origins))
            return
        except CannotStart as problem:
            _leave_out(merge, problem)


def _leave_out(merge: SettingsMerge, problem: TeamwrightError) -> None:
    """Record that a package refuses a value, and remove the value."""
    where = dict(problem.looked_at).get("at", "")
    key = max((name for name in merge.values if where.startswith(name)), key=len, default="")
    if not key:
        raise problem
    del merge.values[key]
    for part in reversed(merge.parts.found):
        if part.key == key and part.state == "used":
            part.set_state("broken", reason(problem))
            return


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema as an object, the keys in the order of the table."""
    about = "Settings of Teamwright: settings.json, settings.local.json, and a file given with --settings."
    root: dict[str, Any] = {"$schema": DIALECT, "title": "Teamwright settings", **_object(about)}
    _inside(root)["$schema"] = {"type": "string"}
    for name, key in setting_keys().items():
        *above, last = name.split(".")
        place = root
        for part in above:
            place = _inside(place).setdefault(part, _object())
        _inside(place)[last] = _described(key)
    return root


def _inside(place: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", place["properties"])


def _object(about: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {"description": about} if about else {}
    return {
        **fields,
        "type": "object",
        "properties": {},
        "patternProperties": {"^//": {}},
        "additionalProperties": False,
    }


def _described(key: SettingKey) -> dict[str, Any]:
    own = " Only in your own settings." if key.user_only else ""
    default = {} if key.default is None else {"default": key.default}
    return {"description": f"{key.meaning}{own}", **key.schema, **default}
