"""Settings of models and providers, parsed from JSON; an error names the expected value.

Depends on the merged settings; no server is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from teamwright.config.settings.files import bad_settings
from teamwright.config.settings.settings import Settings
from teamwright.models.effort import LEVELS, parse_effort
from teamwright.models.endpoint import APIS
from teamwright.models.model_settings import CustomProvider, ModelFacts, ModelSettings, Price
from teamwright.models.provider_table import PROVIDERS
from teamwright.protocol.ids import nearest

_Check = tuple[Callable[[Any], bool], str]
_RATES = ("usd_in", "usd_out", "usd_cache_read", "usd_cache_write")


def model_settings(settings: Settings) -> ModelSettings:
    """Return the models' settings. Raises CannotStart (`bad-settings`) for a value that is not understood."""
    values = settings.models
    fallback = ModelSettings()
    return ModelSettings(
        model=values.get("model"),
        effort=None if (effort := values.get("effort")) is None else parse_effort(effort),
        thinking=values.get("thinking", fallback.thinking),
        prompt=values.get("prompt"),
        max_output_tokens=values.get("max_output_tokens"),
        context_tokens=values.get("context_tokens"),
        retries=values.get("retries", fallback.retries),
        cache_warmup_s=values.get("cache_warmup_s", fallback.cache_warmup_s) or 0.0,
        cache_hour=values.get("cache_hour", fallback.cache_hour),
        stall_s=values.get("stall_s", fallback.stall_s),
        custom={name: _provider(settings, name, value) for name, value in _objects(settings, "providers")},
        models={name: _facts(settings, "models", name, value) for name, value in _objects(settings, "models")},
        prices={name: _price(settings, name, value) for name, value in _objects(settings, "prices")},
        slips=tuple(warning for warning in settings.warnings if "did you mean" in warning),
        files=settings.files,
    )


def _objects(settings: Settings, key: str) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, value in cast("Mapping[str, Any]", settings.models.get(key, {})).items():
        if not isinstance(value, dict):
            raise _bad(settings, key, f"{name} must be an object")
        found.append((name, cast("Mapping[str, Any]", value)))
    return found


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in cast("dict[Any, Any]", value).values())


def _are_levels(value: Any) -> bool:
    return isinstance(value, list) and all(level in LEVELS for level in cast("list[Any]", value))


def _are_parameters(value: Any) -> bool:
    found = cast("dict[Any, Any]", value) if isinstance(value, dict) else {None: None}
    return all(isinstance(one, bool | int | float | str) for one in found.values())


_COUNT: _Check = (_is_count, "a whole number above 0")
_PRICE: _Check = (_is_price, "USD per million tokens, a number from 0 on")
_BOOL: _Check = (_is_bool, "true or false")
_TEXT: _Check = (_is_text, "a text")
_TEXTS: _Check = (_are_texts, "an object with texts")
_FACTS: Mapping[str, _Check] = {
    "context_tokens": _COUNT,
    "max_output_tokens": _COUNT,
    **dict.fromkeys(_RATES, _PRICE),
    **dict.fromkeys(("tools", "images", "thinking", "parallel"), _BOOL),
    "efforts": (_are_levels, f"a list of {', '.join(LEVELS)}"),
    "sampling": (_are_parameters, "an object with numbers, texts, true or false"),
}
_PROVIDER: Mapping[str, _Check] = {
    **dict.fromkeys(("base_url", "api", "key_env"), _TEXT),
    **dict.fromkeys(("bearer", "caching", "think_tags"), _BOOL),
    **dict.fromkeys(("headers", "query"), _TEXTS),
    "requests": _COUNT,
}
FACT_KEYS, PROVIDER_KEYS = tuple(_FACTS), tuple(_PROVIDER)
"""The keys of an entry under `models`, and the additional keys of an entry under `providers`."""


def _checked(settings: Settings, key: str, name: str, value: Mapping[str, Any], checks: Mapping[str, _Check]) -> None:
    for part, item in value.items():
        if part not in checks:
            close = nearest(part, checks)
            hint = f"did you mean {close}?" if close else f"known: {', '.join(checks)}"
            raise _bad(settings, key, f"{name}: {part} is not understood; {hint}")
        fits, expected = checks[part]
        if not fits(item):
            raise _bad(settings, key, f"{name}: {part} must be {expected}")


def _made_facts(value: Mapping[str, Any]) -> ModelFacts:
    facts = {part: item for part, item in value.items() if part in _FACTS}
    if "efforts" in facts:
        facts["efforts"] = tuple(facts["efforts"])
    if "sampling" in facts:
        facts["sampling"] = tuple(facts["sampling"].items())
    return ModelFacts(**facts)


def _facts(settings: Settings, key: str, name: str, value: Mapping[str, Any]) -> ModelFacts:
    _checked(settings, key, name, value, _FACTS)
    if ("usd_in" in value) != ("usd_out" in value):
        raise _bad(settings, key, f"{name}: usd_in and usd_out belong together, in USD per million tokens")
    return _made_facts(value)


def _provider(settings: Settings, name: str, value: Mapping[str, Any]) -> CustomProvider:
    _checked(settings, "providers", name, value, {**_PROVIDER, **_FACTS})
    preset = PROVIDERS.get(name)
    if preset is None and "base_url" not in value:
        raise _bad(settings, "providers", f"{name}: base_url is missing")
    if value.get("api", "messages") not in APIS:
        raise _bad(settings, "providers", f"{name}: api must be one of {', '.join(APIS)}")
    if preset is not None and value.get("api", preset.api) != preset.api:
        raise _bad(settings, "providers", f"{name} speaks {preset.api}: give a provider of another api another name")
    facts = _facts(settings, "providers", name, {part: item for part, item in value.items() if part in _FACTS})
    return CustomProvider(**{part: item for part, item in value.items() if part in _PROVIDER}, facts=facts)


def _price(settings: Settings, name: str, value: Mapping[str, Any]) -> Price:
    known = all(key in _RATES and _is_price(part) for key, part in value.items())
    if not known or not {"usd_in", "usd_out"} <= set(value):
        raise _bad(settings, "prices", f"{name}: usd_in and usd_out are needed, in USD per million tokens")
    return Price(**value)


def _bad(settings: Settings, key: str, what: str) -> Exception:
    return bad_settings(Path(settings.origins.get(key, "settings")), f"{key}: {what}", key)
