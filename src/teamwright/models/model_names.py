"""Resolution of a model's name to its provider, credential and facts. Nothing is chosen by chance.

A name is an alias (`sonnet`), a vendor's id (`claude-…`) or `provider/model`. Forms of another product, and names
without their provider, are understood too. Keys come from the environment that is passed in. Raises `CannotStart` with
advice for a person.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from teamwright.models.catalog import DEFAULT_MODEL, aliases, known_ids, model_card
from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import get_command, start_command
from teamwright.models.model import ModelCard
from teamwright.models.model_settings import ModelSettings
from teamwright.models.provider_table import (
    OFFICIAL_HOST,
    PROVIDERS,
    Provider,
    custom_provider,
    header_variables,
    make_endpoint,
    preset_with,
)
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import nearest

if TYPE_CHECKING:
    from teamwright.models.local_servers import LocalServer


KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENROUTER_API_KEY")
"""The variables that the error lists as examined when no model is named."""

OTHER_KEYS = {
    "OPENROUTER_API_KEY": "openrouter",
    "OPENAI_API_KEY": "openai",
    "GEMINI_API_KEY": "google",
    "GOOGLE_API_KEY": "google",
    "AWS_BEARER_TOKEN_BEDROCK": "bedrock",
}
"""Key variables that do not choose a model, and their providers."""
MAX_OTHERS = 2
"""The number of them that an error names."""


def resolve_model(name: str | None, env: Mapping[str, str], settings: ModelSettings) -> tuple[ModelCard, Endpoint]:
    """Return the card and the endpoint of a name. Raises `CannotStart` (`no-model`, `unknown-model`)."""
    full_name = (name or settings.model or "").strip()
    provider, wire = split_name(full_name or DEFAULT_MODEL, settings)
    full_name = canonical_name(full_name)
    _require_named(provider, wire, full_name, env, settings)
    endpoint = make_endpoint(provider, env)
    require_key(provider, endpoint, full_name, env, settings)
    found = model_card(provider, wire, settings)
    return replace(found, hour_cache=_caches_an_hour(provider, endpoint, settings)), endpoint


def _caches_an_hour(provider: Provider, endpoint: Endpoint, settings: ModelSettings) -> bool:
    """Return True when breakpoints for an hour may be set: at Anthropic's own address, or as the settings say."""
    if not provider.caching or provider.api != "messages":
        return False
    official = provider.id == "anthropic" and endpoint.display_address.startswith(OFFICIAL_HOST)
    return official if settings.cache_hour == "auto" else settings.cache_hour == "on"


def _require_named(
    provider: Provider, wire: str, model_name: str, env: Mapping[str, str], settings: ModelSettings
) -> None:
    """Raise `CannotStart` (`unknown-model`) for a name without a provider that Anthropic does not have."""
    if provider.id != "anthropic" or "/" in model_name or not model_name or is_claude(wire) or has_gateway(env):
        return
    known_names = {name.partition("/")[2] for name in (*settings.prices, *settings.models)} | set(settings.models)
    if wire in aliases() or wire in known_names or provider.base_url != PROVIDERS["anthropic"].base_url:
        return
    from teamwright.models.local_servers import find_local_servers

    served = [
        f"{one.provider}/{model.id}"
        for one in find_local_servers(env)
        for model in one.models
        if _is_same_model(wire, model.id)
    ]
    own = [name for name in settings.custom if name not in PROVIDERS]
    raise no_provider_error(wire, served[:2], own, nearest(wire, aliases()))


NO_SETTINGS = ModelSettings()


def require_key(
    provider: Provider,
    endpoint: Endpoint,
    model_name: str,
    env: Mapping[str, str],
    settings: ModelSettings = NO_SETTINGS,
) -> None:
    """Raise `CannotStart` (`no-model`) when there is no credential for the service that `model_name` names."""
    if provider.key_needed and not endpoint.has_key:
        raise no_model_error(provider, model_name, env, settings)
    if provider.api == "bedrock":
        from teamwright.models.providers.aws import require_signing

        require_signing(endpoint)


def known_providers(settings: ModelSettings) -> dict[str, Provider]:
    """Return the presets and the user's providers, by name. A preset keeps its API; the user may change other
    values.
    """
    custom = settings.custom
    own = {name: custom_provider(name, row) for name, row in custom.items() if name not in PROVIDERS}
    return {
        **own,
        **{name: preset_with(row, custom[name]) if name in custom else row for name, row in PROVIDERS.items()},
    }


def key_variables(settings: ModelSettings) -> tuple[str, ...]:
    """Return the names of all variables that may contain a key: removed from the environment of agents' commands."""
    rows = known_providers(settings).values()
    return tuple(name for row in rows for name in (*(key.name for key in row.keys), *header_variables(row)))


def split_name(name: str, settings: ModelSettings) -> tuple[Provider, str]:
    """Return the provider and its id of the model; a name without a provider is Anthropic's.

    Raises `CannotStart` (`unknown-model`) for an unknown provider, and for a provider without a model.
    """
    name = canonical_name(name)
    first, slash, rest = name.partition("/")
    known = known_providers(settings)
    if not slash and first not in known:
        return known["anthropic"], first
    if first in known and rest:
        return known[first], rest
    raise _no_such_name(name, known)


def _no_such_name(name: str, known: Mapping[str, Provider]) -> CannotStart:
    """Return the error for a name without its model, or of an unknown provider."""
    first, _, rest = name.partition("/")
    close = nearest(first, known) if first not in known else None
    ways = [f"did you mean {close}/{rest}?"] if close and rest else []
    if first in known:
        ways.append(f"teamwright models {first}   (what it lists; then --model {first}/MODEL)")
    else:
        ways.append("teamwright models")
    return CannotStart(
        "unknown-model",
        f'"{first}" is not a provider' if rest and first not in known else f'"{name}" names no model',
        looked_at=[("providers", ", ".join(known))],
        do=[*ways, "write provider/model, or an alias such as sonnet"],
    )


def no_model_error(provider: Provider, model_name: str, env: Mapping[str, str], settings: ModelSettings) -> CannotStart:
    """Return the error for a model without a key: the variables that were read, their state, and advice."""
    from teamwright.models.local_servers import find_local_servers

    servers = find_local_servers(env)
    there = {name: id for name, id in OTHER_KEYS.items() if env.get(name, "").strip()}
    others = {} if model_name else dict(list(there.items())[:MAX_OTHERS])
    looked = [name for name in KEY_VARIABLES if name not in others]
    names = looked if not model_name else tuple(key.name for key in reversed(provider.keys))
    if model_name and provider.api == "bedrock":
        names = (*names, "AWS_ACCESS_KEY_ID", "AWS_PROFILE")
    looked_at = [
        (
            "looked at",
            ", ".join(names) + ("" if model_name else f', "model" in {_settings(settings.files)}') + ": none set",
        )
    ]
    looked_at += [("not read", slip) for slip in settings.slips[:MAX_OTHERS]]
    found = [str(server) for server in servers[:3]] + _others(env, others)
    looked_at += [("found" if place == 0 else "", line) for place, line in enumerate(found)]
    what = f"no key for {provider.title}, which {model_name} needs" if model_name else "no model to talk to"
    ways = [*_likely_names(model_name, servers), *_suggestions(provider, servers, others)]
    short = aliases()
    if model_name and model_name not in short and (suggestion := nearest(model_name, short)):
        ways.insert(0, f"did you mean {suggestion}?")
    return CannotStart("no-model", what, looked_at=looked_at, do=ways)


def _likely_names(model_name: str, servers: list[LocalServer]) -> list[str]:
    """Return what a name without its provider may mean: models of a server that answers."""
    same = [
        f"{one.provider}/{model.id}" for one in servers for model in one.models if _is_same_model(model_name, model.id)
    ]
    return [f"did you mean {name}?" for name in same[:2]]


def _is_same_model(name: str, served: str) -> bool:
    return bool(name) and name.lower() in {served.lower(), served.lower().partition(":")[0]}


def _settings(files: int) -> str:
    return f"{files} settings file{'s' if files > 1 else ''}" if files else "the settings"


def _others(env: Mapping[str, str], keys: Mapping[str, str]) -> list[str]:
    """Return the other credentials that people may expect to be used."""
    found = [f"{name}: name a model to use it" for name in keys]
    if list(keys) == ["OPENAI_API_KEY"]:
        found = [
            "OPENAI_API_KEY: it works when a model is named; so do OpenRouter with its key, a gateway of "
            "yours (providers in the settings), or an open model with Ollama"
        ]
    if env.get("HOME") and (Path(env["HOME"]) / ".claude").is_dir():
        found.append("a Claude Code login, perhaps: it works in Claude Code only, other programs may not use it")
    return found


def _suggestions(provider: Provider, servers: list[LocalServer], keys: Mapping[str, str]) -> list[str]:
    ways = [
        f"teamwright --model {id}/{next(iter(known_ids(id)), 'MODEL')}   (teamwright models {id} lists them)"
        for id in dict.fromkeys(keys.values())
    ][:MAX_OTHERS]
    if provider.keys:
        ways.append(f"export {provider.keys[-1].name}=…")
    usable = [server for server in servers if server.models]
    ways += [f"teamwright --model {server.provider}/{server.models[0].id}" for server in usable[:2]]
    if servers and not usable:
        ways.append(f"{get_command(servers[0].provider)}, then teamwright --model {servers[0].provider}/MODEL")
    if not servers:
        ways.append(f"{start_command('ollama')}, then teamwright --model ollama/MODEL")
    ways.append("teamwright demo                                   (needs no model)")
    return ways


_FORMS = {"default": "sonnet", "opusplan": "opus"}
"""Names in another product's settings, and the model that is used for each."""
_LONG_WINDOW = "[1m]"
"""The ending of a name that asks for a window of a million tokens: the catalogue knows the window of a model."""

_VENDORS = (
    (re.compile(r"(?:gpt-(?!oss)|chatgpt|codex|o\d)", re.I), "openai"),
    (re.compile(r"gemini", re.I), "google"),
    (re.compile(r"(?:[a-z]{2,4}\.)?anthropic\.", re.I), "bedrock"),
)
_OPEN = re.compile(r".*:|(?:qwen|llama|mistral|devstral|deepseek|gpt-oss|gemma|phi|glm|kimi|granite|codestral)", re.I)
"""Names of models that users run on their own servers."""


def canonical_name(name: str) -> str:
    """Return the name that a form of another product means, e.g. `opus` for `opus[1m]`; other names unchanged."""
    name = name.strip()
    if name.lower().endswith(_LONG_WINDOW):
        name = name[: -len(_LONG_WINDOW)].strip()
    return _FORMS.get(name.lower(), name)


def is_claude(name: str) -> bool:
    """Return True when a name without a provider may be one of Anthropic's."""
    return name.lower().startswith("claude")


def no_provider_error(name: str, served: Sequence[str], own: Sequence[str], close: str | None) -> CannotStart:
    """Return the error for a name without its provider: its possible meanings, and the settings of a server.

    `served` are matching names of this machine's servers, `own` the user's providers, `close` a similar alias.
    """
    ways = [f"did you mean {close}?"] if close else []
    ways += [f"teamwright --model {one}" for one in served]
    ways += [f"teamwright --model {provider}/{name}" for pattern, provider in _VENDORS if pattern.match(name)]
    if not served and _OPEN.match(name):
        ways.append(f"teamwright --model ollama/{name}   (or lmstudio, llamacpp, vllm, sglang)")
    ways += [f"teamwright --model {one}/{name}" for one in own[:2]]
    entry = '{"providers": {"NAME": {"base_url": "http://HOST:PORT/v1", "api": "openai-chat"}}}'
    ways.append(f"--model NAME/{name} for another server, with {entry} in settings.json (docs/reference/providers.md)")
    return CannotStart(
        "unknown-model",
        f'"{name}" names no provider, and is no model of Anthropic\'s',
        looked_at=[("a model is", "provider/model, or an alias such as sonnet")],
        do=ways,
        note="nothing was sent",
    )


def has_gateway(env: Mapping[str, str]) -> bool:
    """Return True when a gateway replaces Anthropic's service: its models may have any name."""
    return bool(env.get("ANTHROPIC_BASE_URL", "").strip())
