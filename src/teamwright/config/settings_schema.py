"""The JSON Schema of a settings file, and the default of each key.

The schema is built from the table of keys with the sentence of each key. It accepts the entries of our own files, and
nothing that causes a warning. A default is read from the settings class of the package that owns the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from typing import Any, cast

from teamwright.config.settings.setting_fields import FIELDS as ASSEMBLED
from teamwright.config.settings.setting_keys import KEYS, SettingKey
from teamwright.config.settings.settings import Settings
from teamwright.hooks.hook_index import EVENTS
from teamwright.models.effort import LEVELS, MAX_BUDGET
from teamwright.models.model_settings import ModelSettings

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NUMBER = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10_000_000}
_SHARE = {"type": "number", "minimum": 0.1, "maximum": 0.95}
_TEXTS = {"type": "array", "items": {"type": "string"}}

_KINDS: Mapping[str, Mapping[str, Any]] = {
    "bool": {"type": "boolean"},
    "bool or always": {"enum": [True, False, "always"]},
    "count": {"type": "integer", "minimum": 0},
    "positive": {"type": "integer", "minimum": 1},
    "amount": _NUMBER,
    "seconds": _NUMBER,
    "seconds or null": {**_NUMBER, "type": ["number", "null"]},
    "share": _SHARE,
    "share or null": {**_SHARE, "type": ["number", "null"]},
    "effort": {"anyOf": [{"enum": list(LEVELS)}, {"type": "integer", "minimum": 1, "maximum": MAX_BUDGET}]},
    "text": {"type": "string"},
    "texts": _TEXTS,
    "env": {"type": "object", "additionalProperties": {"type": "string"}},
    "map": {"type": "object"},
}
_MORE: Mapping[str, Mapping[str, Any]] = {"hooks": {"propertyNames": {"enum": list(EVENTS)}}}


def json_schema() -> dict[str, Any]:
    """Return the schema as an object, the keys in the order of the table."""
    about = "Settings of Teamwright: settings.json, settings.local.json, and a file given with --settings."
    root: dict[str, Any] = {"$schema": DIALECT, "title": "Teamwright settings", **_object(about)}
    _inside(root)["$schema"] = {"type": "string"}
    for name, key in KEYS.items():
        *above, last = name.split(".")
        place = root
        for part in above:
            place = _inside(place).setdefault(part, _object())
        _inside(place)[last] = _described(name, key)
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


def _described(name: str, key: SettingKey) -> dict[str, Any]:
    own = " Only in your own settings." if key.user_only else ""
    what = {"enum": list(key.words)} if key.words else _KINDS[key.kind]
    default = default_of(name)
    fields = {} if default is None else {"default": default}
    return {"description": f"{key.meaning}{own}", **what, **_MORE.get(name, {}), **fields}


FIELDS: Mapping[str, str] = {**ASSEMBLED, "permissions.defaultMode": "mode", "compat.claude": "compat"}
"""The field of `Settings` that a key sets."""

OF_MODELS = frozenset({"thinking", "retries", "cache_warmup_s", "cache_hour", "stall_s"})
"""Keys that set a field of the same name in the models' settings."""


@cache
def default_of(key: str) -> Any:
    """Return the default as JSON; None when there is none."""
    if key in OF_MODELS:
        return getattr(ModelSettings(), key)
    if key not in FIELDS:
        return None
    found: Any = reduce(getattr, FIELDS[key].split("."), Settings())
    if isinstance(found, str):
        return str(found) or None
    return found if isinstance(found, bool | int | float) else None
