"""Resolution of a model's name to its provider, credential and facts. Nothing is chosen by chance.

A name is an alias (`sonnet`), a vendor's id (`claude-…`) or `provider/model`. Forms of another product, and names
without their provider, are understood too. Keys come from the environment that is passed in. Raises `CannotStart` with
advice for a person.

Each fact about a model has its source: the user's settings, the model's server, the catalogue of public documentation
(`catalog.json`, with its date and its sources), or an assumption. An unknown id works too, with an unknown price and a
small assumed window. The user's prices take precedence; local servers cost nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import LocalServer, find_local_servers, get_command, start_command
from teamwright.models.model import LongPrompt, ModelCard
from teamwright.models.model_settings import ModelFacts, ModelSettings, Thinking
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
    from teamwright.models.model_server_queries import ServerFacts


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

DEFAULT_MODEL = "sonnet"
DEFAULT_OUTPUT = 8_192
"""Output tokens of one answer where the limit is unknown."""

NO_SETTINGS = ModelSettings()


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
        from teamwright.models.providers.bedrock import require_signing

        require_signing(endpoint)


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


def canonical_name(name: str) -> str:
    """Return the name that a form of another product means, e.g. `opus` for `opus[1m]`; other names unchanged."""
    name = name.strip()
    if name.lower().endswith(_LONG_WINDOW):
        name = name[: -len(_LONG_WINDOW)].strip()
    return _FOREIGN_NAMES.get(name.lower(), name)


def is_claude(name: str) -> bool:
    """Return True when a name without a provider may be one of Anthropic's."""
    return name.lower().startswith("claude")


def has_gateway(env: Mapping[str, str]) -> bool:
    """Return True when a gateway replaces Anthropic's service: its models may have any name."""
    return bool(env.get("ANTHROPIC_BASE_URL", "").strip())


def no_model_error(provider: Provider, model_name: str, env: Mapping[str, str], settings: ModelSettings) -> CannotStart:
    """Return the error for a model without a key: the variables that were read, their state, and advice."""
    servers = find_local_servers(env)
    there = {name: id for name, id in OTHER_KEYS.items() if env.get(name, "").strip()}
    others = {} if model_name else dict(list(there.items())[:MAX_OTHERS])
    if model_name:
        names = [key.name for key in reversed(provider.keys)]
        names += ["AWS_ACCESS_KEY_ID", "AWS_PROFILE"] if provider.api == "bedrock" else []
    else:
        names = [name for name in KEY_VARIABLES if name not in others]
    looked = ", ".join(names)
    if not model_name:
        files = (
            f"{settings.files} settings file{'s' if settings.files > 1 else ''}" if settings.files else "the settings"
        )
        looked += f', "model" in {files}'
    looked_at = [("looked at", f"{looked}: none set")]
    looked_at += [("not read", slip) for slip in settings.slips[:MAX_OTHERS]]
    found = [str(server) for server in servers[:3]] + _other_credentials(env, others)
    looked_at += [("found" if place == 0 else "", line) for place, line in enumerate(found)]
    what = f"no key for {provider.title}, which {model_name} needs" if model_name else "no model to talk to"
    ways = [f"did you mean {name}?" for name in _served_names(model_name, servers)[:2]]
    ways += _suggestions(provider, servers, others)
    short = aliases()
    if model_name and model_name not in short and (suggestion := nearest(model_name, short)):
        ways.insert(0, f"did you mean {suggestion}?")
    return CannotStart("no-model", what, looked_at=looked_at, do=ways)


def no_provider_error(name: str, served: Sequence[str], own: Sequence[str], close: str | None) -> CannotStart:
    """Return the error for a name without its provider: its possible meanings, and the settings of a server.

    `served` are matching names of this machine's servers, `own` the user's providers, `close` a similar alias.
    """
    ways = [f"did you mean {close}?"] if close else []
    ways += [f"teamwright --model {one}" for one in served]
    ways += [f"teamwright --model {provider}/{name}" for pattern, provider in _VENDORS if pattern.match(name)]
    if not served and _OPEN_MODELS.match(name):
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


_FOREIGN_NAMES = {"default": "sonnet", "opusplan": "opus"}
"""Names in another product's settings, and the model that is used for each."""

_LONG_WINDOW = "[1m]"
"""The ending of a name that asks for a window of a million tokens: the catalogue knows the window of a model."""

_VENDORS = (
    (re.compile(r"(?:gpt-(?!oss)|chatgpt|codex|o\d)", re.I), "openai"),
    (re.compile(r"gemini", re.I), "google"),
    (re.compile(r"(?:[a-z]{2,4}\.)?anthropic\.", re.I), "bedrock"),
)
_OPEN_MODELS = re.compile(
    r".*:|(?:qwen|llama|mistral|devstral|deepseek|gpt-oss|gemma|phi|glm|kimi|granite|codestral)", re.I
)
"""Names of models that users run on their own servers."""


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
    served = _served_names(wire, find_local_servers(env))
    own = [name for name in settings.custom if name not in PROVIDERS]
    raise no_provider_error(wire, served[:2], own, nearest(wire, aliases()))


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


def _served_names(name: str, servers: list[LocalServer]) -> list[str]:
    """Return what a name without its provider may mean: models of a server that answers."""
    return [
        f"{one.provider}/{model.id}"
        for one in servers
        for model in one.models
        if name and name.lower() in {model.id.lower(), model.id.lower().partition(":")[0]}
    ]


def _other_credentials(env: Mapping[str, str], keys: Mapping[str, str]) -> list[str]:
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


SETTINGS = "settings"
"""The first word of every source in the user's settings."""

SERVER = "the server"
CATALOGUE = "the catalogue"
ASSUMED = "assumed"
OWN_SERVER = "a server of your own"
"""The source of the price 0."""

RATES = ("usd_in", "usd_out", "usd_cache_read", "usd_cache_write")
_FACTS = tuple(name for name in ModelFacts.__struct_fields__ if name not in RATES)

_CLAUDE = re.compile(r"anthropic\.(claude-[a-z0-9-]+?)(?:-v\d.*)?$")
"""A Claude model under its id at Bedrock, e.g. `eu.anthropic.claude-opus-4-5-20251101-v1:0`."""

_EFFORTS_WITHOUT_THINKING = ("none", "minimal", "low", "medium", "high")
"""The levels of effort of a model that does not think."""


def model_card(provider: Provider, wire: str, settings: ModelSettings) -> ModelCard:
    """Return the card of a model at a provider. Never fails: facts may be unknown."""
    wire = str(catalog()["aliases"].get(wire, wire)) if provider.id == "anthropic" else wire
    name = f"{provider.id}/{wire}"
    row = _row(provider.id, wire)
    facts, sources = known_facts(provider, name, wire, settings, row)
    long = row.get("long_prompt") if sources.get("price") == CATALOGUE else None
    return ModelCard(
        name=name,
        wire=wire,
        provider=provider.id,
        context_tokens=int(facts.get("context_tokens", provider.window)),
        max_output_tokens=int(facts.get("max_output_tokens", DEFAULT_OUTPUT)),
        long_prompt=LongPrompt(**long) if long else None,
        images=facts.get("images", provider.images),
        thinking=facts.get("thinking", bool(row.get("thinking_on"))),
        caching=provider.caching,
        efforts=facts.get("efforts") or _efforts(provider.id, wire, settings),
        budget_from=row.get("budget_from"),
        tools=facts.get("tools", True),
        parallel=facts.get("parallel", True),
        sampling=facts.get("sampling", ()),
        think_tags=provider.think_tags,
        sources=tuple(sources.items()),
        usd_in=facts.get("usd_in"),
        usd_out=facts.get("usd_out"),
        usd_cache_read=facts.get("usd_cache_read"),
        usd_cache_write=facts.get("usd_cache_write"),
    )


def thinking_field(model: ModelCard, thinking: Thinking) -> dict[str, str] | None:
    """Return the `thinking` field of a request, or None where the model documents none."""
    if not model.thinking and is_set(model, "thinking"):
        return None
    row = _row(model.provider, model.wire)
    field = row.get("thinking_on" if thinking == "adaptive" else "thinking_off")
    return dict(field) if field else None


def with_server(card: ModelCard, facts: ServerFacts) -> ModelCard:
    """Return the card with the facts from the server, except for those in the user's settings."""
    words = {"context_tokens": facts.window, "images": facts.images, "tools": facts.tools}
    news = {fact: value for fact, value in words.items() if value is not None and not is_set(card, fact)}
    if not news:
        return card
    changes: dict[str, Any] = dict(news)
    sources = tuple((dict(card.sources) | dict.fromkeys(news, SERVER)).items())
    return replace(card, **changes, sources=sources)


def with_window(card: ModelCard, window: int) -> ModelCard:
    """Return the card with the window in tokens that its service has stated."""
    return replace(
        card, context_tokens=window, sources=tuple((dict(card.sources) | {"context_tokens": SERVER}).items())
    )


def source(card: ModelCard, fact: str) -> str:
    """Return the source of a fact, e.g. `the catalogue`; `assumed` for a fact without a source."""
    return dict(card.sources).get(fact, ASSUMED)


def is_set(card: ModelCard, fact: str) -> bool:
    """Return True when the user's settings contain this fact."""
    return source(card, fact).startswith(SETTINGS)


def known_facts(
    provider: Provider, name: str, wire: str, settings: ModelSettings, row: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the facts of a model and their sources, the most specific source first.

    `row` is the catalogue's. Prices come together from one source: a price of the user's own has no others added.
    """
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer, origin in _layers(provider, name, wire, settings, row):
        for fact in _FACTS:
            if fact not in found and layer.get(fact) is not None:
                found[fact], sources[fact] = layer[fact], origin
        if "price" not in sources and layer.get("usd_in") is not None and layer.get("usd_out") is not None:
            found |= {rate: layer.get(rate) for rate in RATES}
            sources["price"] = origin
    return found, sources


@cache
def catalog() -> dict[str, Any]:
    """Return the data file, read once a process."""
    return cast("dict[str, Any]", json.loads(Path(__file__).with_name("catalog.json").read_text("utf-8")))


def aliases() -> dict[str, str]:
    """Return short names and their ids."""
    return dict(catalog()["aliases"])


def prices_date() -> str:
    """Return the date of the prices, `YYYY-MM-DD`."""
    return str(catalog()["seen"])


def known_ids(provider: str = "anthropic") -> list[str]:
    """Return the ids of a provider in the catalogue, the current ones first."""
    return list(_models(provider))


def is_known_id(provider: str, wire: str) -> bool:
    """Return True when the catalogue has the id, also under another name."""
    return bool(_row(provider, wire))


def _layers(
    provider: Provider, name: str, wire: str, settings: ModelSettings, row: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    for key in (name, *((wire,) if provider.id == "anthropic" else ())):
        if key in settings.models:
            yield _values(settings.models[key]), f"{SETTINGS}: models"
    if name in settings.prices:
        yield {rate: getattr(settings.prices[name], rate) for rate in RATES}, f"{SETTINGS}: prices"
    if provider.id in settings.custom:
        yield _values(settings.custom[provider.id].facts), f"{SETTINGS}: providers"
    if settings.context_tokens and not row:
        yield {"context_tokens": settings.context_tokens}, f"{SETTINGS}: context_tokens"
    yield row, CATALOGUE
    if provider.is_local:
        yield {"usd_in": 0.0, "usd_out": 0.0, "usd_cache_read": 0.0, "usd_cache_write": 0.0}, OWN_SERVER


def _values(facts: ModelFacts) -> dict[str, Any]:
    return {name: getattr(facts, name) or None for name in ModelFacts.__struct_fields__} | {
        name: value
        for name in ("tools", "images", "thinking", "parallel", *RATES)
        if (value := getattr(facts, name)) is not None
    }


def _efforts(provider: str, wire: str, settings: ModelSettings) -> tuple[str, ...]:
    """Return the levels of effort that the model documents."""
    claude = _CLAUDE.search(wire) if provider == "bedrock" else None
    row = _row("anthropic", claude[1]) if claude else _row(provider, wire)
    off = settings.thinking == "off" and row.get("thinking_off") == {"type": "disabled"}
    return tuple(level for level in row.get("effort", ()) if not off or level in _EFFORTS_WITHOUT_THINKING)


def _row(provider: str, wire: str) -> dict[str, Any]:
    same: dict[str, str] = catalog()["same_as"] if provider == "anthropic" else {}
    found: dict[str, Any] = _models(provider).get(same.get(wire, wire), {})
    return found


def _models(provider: str) -> dict[str, dict[str, Any]]:
    if provider == "anthropic":
        return cast("dict[str, dict[str, Any]]", catalog()["models"])
    return cast("dict[str, dict[str, Any]]", catalog()["others"].get(provider, {}))
