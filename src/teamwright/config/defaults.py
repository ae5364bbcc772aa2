"""What holds where nobody says anything: each key's default, taken from the room that it belongs to.

Knows which field of a room a key is; the value itself stands in the room alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from typing import Any

from teamwright.config.settings.setting_fields import FIELDS as ASSEMBLED
from teamwright.config.settings.settings import Settings
from teamwright.models.model_settings import ModelSettings

FIELDS: Mapping[str, str] = {**ASSEMBLED, "permissions.defaultMode": "mode", "compat.claude": "compat"}
"""The field of `Settings` that a key decides."""

OF_MODELS = frozenset({"thinking", "retries", "cache_warmup_s", "cache_hour", "stall_s"})
"""Keys that decide a field of the models' settings, of the same name."""


@cache
def default_of(key: str) -> Any:
    """The default as JSON holds it; None where there is none, or nothing is the default."""
    if key in OF_MODELS:
        return getattr(ModelSettings(), key)
    if key not in FIELDS:
        return None
    found: Any = reduce(getattr, FIELDS[key].split("."), Settings())
    if isinstance(found, str):
        return str(found) or None
    return found if isinstance(found, bool | int | float) else None
