"""From settings to the policy of a run: its scope, what is private in it, and models' settings as their room has them.

Assembly only: decides nothing by itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from teamwright.app.settings.files import bad_settings
from teamwright.app.settings.model import Settings
from teamwright.app.trust.store import TrustState
from teamwright.app.trust.survey import files_run_by
from teamwright.models.effort import LEVELS, parse_effort
from teamwright.models.endpoint import APIS
from teamwright.models.settings import CustomProvider, ModelSettings, Price
from teamwright.permissions.book import Scope
from teamwright.permissions.decide import Policy
from teamwright.storage.paths import Home


def private_paths(home: Home) -> tuple[Path, ...]:
    """What file tools may not touch by default: the state root, and the other product's login."""
    login = Path(os.path.expanduser("~/.claude/.credentials.json"))
    shared = [home.shared / name for name in ("teams", "tasks", "projects", ".credentials.json")]
    found = [home.ours, *(shared if home.foreign else ()), login]
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in found))


def policy_of(settings: Settings, home: Home, cwd: Path, trust: TrustState, own: tuple[Path, ...] = ()) -> Policy:
    """The policy of a run in this directory. `own` are directories of the state root that its agents may read."""
    scope = Scope(
        directories=tuple(dict.fromkeys((Path(os.path.realpath(cwd)), *settings.directories))),
        private=private_paths(home),
        own=tuple(Path(os.path.realpath(path)) for path in own),
        trusted_git=trust.trusted_git,
        base=trust.root,
        run=files_run_by(settings.hooks, trust.root),
    )
    made = Policy(settings.mode, settings.rules, scope)
    made.delegating = settings.delegates
    return made


def model_settings(settings: Settings) -> ModelSettings:
    """The models' settings. Raises CannotStart (`bad-settings`) for a provider or price that is not understood."""
    given = settings.models
    fallback = ModelSettings()
    return ModelSettings(
        model=given.get("model"),
        effort=None if (effort := given.get("effort")) is None else parse_effort(effort),
        thinking=given.get("thinking", fallback.thinking),
        max_output_tokens=given.get("max_output_tokens"),
        context_tokens=given.get("context_tokens"),
        retries=given.get("retries", fallback.retries),
        stagger_s=given.get("stagger_s", fallback.stagger_s) or 0.0,
        cache_hour=given.get("cache_hour", fallback.cache_hour),
        stall_s=given.get("stall_s", fallback.stall_s),
        custom={name: _provider(settings, name, value) for name, value in _objects(settings, "providers")},
        prices={name: _price(settings, name, value) for name, value in _objects(settings, "prices")},
        files=settings.files,
    )


def _objects(settings: Settings, key: str) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, value in cast("Mapping[str, Any]", settings.models.get(key, {})).items():
        if not isinstance(value, dict):
            raise _bad(settings, key, f"{name} must be an object")
        found.append((name, cast("Mapping[str, Any]", value)))
    return found


_PROVIDER = {
    "base_url": str,
    "api": str,
    "key_env": str,
    "bearer": bool,
    "caching": bool,
    "images": bool,
    "efforts": list,
}
_PRICE = ("usd_in", "usd_out", "usd_cache_read", "usd_cache_write")


def _provider(settings: Settings, name: str, value: Mapping[str, Any]) -> CustomProvider:
    wrong = [key for key, part in value.items() if not isinstance(part, _PROVIDER.get(key, ()))]
    if wrong or "base_url" not in value:
        raise _bad(settings, "providers", f"{name}: {wrong[0] if wrong else 'base_url'} is missing or not understood")
    if value.get("api", "messages") not in APIS:
        raise _bad(settings, "providers", f"{name}: api must be one of {', '.join(APIS)}")
    efforts: Sequence[Any] = value.get("efforts", ())
    if not all(level in LEVELS for level in efforts):
        raise _bad(settings, "providers", f"{name}: efforts must be some of {', '.join(LEVELS)}")
    said: dict[str, Any] = {**value, "efforts": tuple(efforts)}
    return CustomProvider(**said)


def _price(settings: Settings, name: str, value: Mapping[str, Any]) -> Price:
    known = all(key in _PRICE and isinstance(part, int | float) and part >= 0 for key, part in value.items())
    if not known or not {"usd_in", "usd_out"} <= set(value):
        raise _bad(settings, "prices", f"{name}: usd_in and usd_out are needed, in USD per million tokens")
    return Price(**value)


def _bad(settings: Settings, key: str, what: str) -> Exception:
    return bad_settings(Path(settings.origins.get(key, "settings")), f"{key}: {what}", key)
