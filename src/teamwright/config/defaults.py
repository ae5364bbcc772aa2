"""The default of each settings key, read from the settings class of the package that owns the key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from typing import Any

from teamwright.config.settings.setting_fields import FIELDS as ASSEMBLED
from teamwright.config.settings.settings import Settings
from teamwright.models.model_settings import ModelSettings

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
