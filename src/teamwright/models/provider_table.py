"""The table of providers: the service, its API, and the source of its key.

A provider is used only when its name is given, never because a port answers. `evidence` is the
reason to expect that it works: a person tried it, or its documentation says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.models.endpoint import (
    Api,
    Auth,
    Endpoint,
    clean_base_url,
    is_azure,
    is_loopback,
    is_near,
    query_of,
)
from teamwright.models.model_settings import CustomProvider
from teamwright.protocol.errors import CannotStart

Evidence: TypeAlias = Literal["tried", "by its documentation"]


class KeyVariable(Struct, frozen=True):
    """A variable that may contain the key, and the form in which the service receives it."""

    name: str
    auth: Auth


class Provider(Struct, frozen=True):
    """One row. `keys` are read in order, the first one that is set is used.

    `window` is the size in tokens for a model without a known window. `own` servers report facts about their models.
    `headers` and `query` go with each request, `requests` may run at once. `source` is where its API is described,
    `checked_on` the date on which it was read.
    """

    id: str
    title: str
    base_url: str
    keys: tuple[KeyVariable, ...] = ()
    base_url_variable: str = ""
    is_local: bool = False
    key_needed: bool = True
    models_path: str = "/v1/models"
    version: str = "2023-06-01"
    caching: bool = False
    thinking: bool = False
    images: bool = False
    window: int = 128_000
    evidence: Evidence = "by its documentation"
    source: str = ""
    checked_on: str = "2026-11-20"
    api: Api = "messages"
    own: bool = False
    think_tags: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    query: str = ""
    requests: int | None = None

    @property
    def missing_features(self) -> tuple[str, ...]:
        """The features that it does not offer through this API, of those that this program uses."""
        offers = {"caching": self.caching, "thinking": self.thinking, "images": self.images}
        return tuple(name for name, offered in offers.items() if not offered)


def _local(
    name: str, title: str, port: int, source: str, keys: tuple[KeyVariable, ...] = (), base_url_variable: str = ""
) -> Provider:
    return Provider(
        name,
        title,
        f"http://127.0.0.1:{port}",
        keys,
        base_url_variable,
        is_local=True,
        key_needed=False,
        window=32_768,
        source=source,
        own=True,
        think_tags=True,
    )


_VENDORS = (
    Provider(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        (KeyVariable("OPENAI_API_KEY", "bearer"),),
        base_url_variable="OPENAI_BASE_URL",
        models_path="/models",
        caching=True,
        thinking=True,
        images=True,
        source="https://developers.openai.com/api/reference/resources/responses",
        checked_on="2026-11-21",
        api="openai-responses",
    ),
    Provider(
        "google",
        "Google",
        "https://generativelanguage.googleapis.com",
        (KeyVariable("GOOGLE_API_KEY", "x-goog-api-key"), KeyVariable("GEMINI_API_KEY", "x-goog-api-key")),
        base_url_variable="GOOGLE_GEMINI_BASE_URL",
        models_path="/v1beta/models",
        caching=True,
        thinking=True,
        images=True,
        source="https://ai.google.dev/api/generate-content",
        checked_on="2026-11-21",
        api="gemini",
    ),
    Provider(
        "bedrock",
        "Amazon Bedrock",
        "https://bedrock-runtime.REGION.amazonaws.com",
        (KeyVariable("AWS_BEARER_TOKEN_BEDROCK", "bearer"),),
        base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        models_path="/foundation-models",
        caching=True,
        images=True,
        source="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html",
        checked_on="2026-11-21",
        api="bedrock",
    ),
)

_ROWS = (
    Provider(
        "anthropic",
        "Anthropic",
        "https://api.anthropic.com",
        (KeyVariable("ANTHROPIC_AUTH_TOKEN", "bearer"), KeyVariable("ANTHROPIC_API_KEY", "x-api-key")),
        base_url_variable="ANTHROPIC_BASE_URL",
        version="2026-10-21",
        caching=True,
        thinking=True,
        images=True,
        window=200_000,
        source="https://platform.claude.com/docs/en/api/versioning",
    ),
    Provider(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api",
        (KeyVariable("OPENROUTER_API_KEY", "bearer"),),
        caching=True,
        images=True,
        source="https://www.developersdigest.tech/reference/api-compatibility/openrouter",
    ),
    _local(
        "ollama",
        "Ollama",
        11434,
        "https://docs.ollama.com/api/anthropic-compatibility",
        (KeyVariable("OLLAMA_API_KEY", "bearer"),),
        "OLLAMA_HOST",
    ),
    _local(
        "lmstudio",
        "LM Studio",
        1234,
        "https://lmstudio.ai/docs/developer/anthropic-compat",
        (KeyVariable("LM_API_TOKEN", "bearer"),),
    ),
    _local("llamacpp", "llama.cpp", 8080, "https://huggingface.co/blog/ggml-org/anthropic-messages-api-in-llamacpp"),
    _local(
        "vllm",
        "vLLM",
        8000,
        "https://docs.vllm.ai/en/stable/serving/integrations/claude_code/",
        (KeyVariable("VLLM_API_KEY", "bearer"),),
    ),
    _local("sglang", "SGLang", 30000, "https://docs.sglang.io/docs/basic_usage/anthropic_api"),
    *_VENDORS,
)

PROVIDERS: dict[str, Provider] = {row.id: row for row in _ROWS}
"""The presets by name."""

OFFICIAL_HOST = "api.anthropic.com"


def custom_provider(name: str, own: CustomProvider) -> Provider:
    """Return the row of a user's provider."""
    return Provider(
        name,
        name,
        clean_base_url(own.base_url, own.api),
        (KeyVariable(own.key_env, _auth(own)),) if own.key_env else (),
        key_needed=bool(own.key_env),
        models_path=_LISTS.get(own.api, "/v1/models"),
        caching=bool(own.caching),
        images=True if own.facts.images is None else own.facts.images,
        api=own.api,
        own=own.api not in ("gemini", "bedrock"),
        think_tags=own.think_tags,
        headers=tuple(own.headers.items()),
        query=_query(own),
        requests=own.requests,
    )


def preset_with(row: Provider, own: CustomProvider) -> Provider:
    """Return a preset with the values that the user gave for it."""
    auth: Auth = row.keys[-1].auth if row.keys else "bearer"
    return replace(
        row,
        base_url=clean_base_url(own.base_url, row.api) if own.base_url else row.base_url,
        keys=(KeyVariable(own.key_env, auth), *row.keys) if own.key_env else row.keys,
        caching=row.caching if own.caching is None else own.caching,
        think_tags=row.think_tags and own.think_tags,
        headers=tuple(own.headers.items()),
        query=_query(own),
        requests=own.requests,
    )


def _auth(own: CustomProvider) -> Auth:
    if own.api == "gemini":
        return "x-goog-api-key"
    if own.bearer is not True and is_azure(own.base_url):
        return "api-key"
    return "x-api-key" if own.bearer is False else "bearer"


def _query(own: CustomProvider) -> str:
    from urllib.parse import urlencode

    return "&".join(part for part in (query_of(own.base_url), urlencode(own.query)) if part)


_LISTS: dict[str, str] = {row.api: row.models_path for row in _VENDORS} | {"openai-chat": "/models"}


def find_base_url(provider: Provider, env: Mapping[str, str]) -> str:
    """Return the address of the provider: its variable, if set, takes precedence over the preset."""
    address = env.get(provider.base_url_variable, "").strip() if provider.base_url_variable else ""
    if not address:
        return clean_base_url(_in_region(provider.base_url, env), provider.api)
    if provider.id == "ollama":
        return clean_base_url(_ollama_url(address))
    return clean_base_url(address, provider.api)


def _in_region(url: str, env: Mapping[str, str]) -> str:
    """Return the address with the region in it; without a region it stays a pattern, which is never called."""
    if _REGION not in url:
        return url
    from teamwright.models.providers.bedrock import find_region

    region = find_region(env)
    domain = ".amazonaws.com.cn" if region.startswith("cn-") else ".amazonaws.com"
    return url.replace(_REGION, region or _REGION).replace(".amazonaws.com", domain)


_REGION = "REGION"
"""The placeholder for the region in an address."""


def _ollama_url(host: str) -> str:
    """Return `OLLAMA_HOST` as an address: it may lack scheme and port, and 0.0.0.0 is where a server listens."""
    scheme, _, rest = host.rpartition("://")
    where, slash, path = rest.partition("/")
    if ":" not in where.rpartition("]")[2]:
        where += ":11434"
    where = where.replace("0.0.0.0", "127.0.0.1", 1)
    return f"{scheme or 'http'}://{where}{slash}{path}"


def make_endpoint(provider: Provider, env: Mapping[str, str]) -> Endpoint:
    """Return the endpoint with its key from the environment; without one the credential is empty.

    Raises CannotStart (`bad-settings`) for an unusable address, and for a header whose variable is not set.
    """
    base_url = find_base_url(provider, env)
    _require_address(provider, base_url)
    # A gateway at ANTHROPIC_BASE_URL may support only the oldest version.
    official = provider.id != "anthropic" or Endpoint("", base_url).display_address.startswith(OFFICIAL_HOST)
    key = next((k for k in provider.keys if env.get(k.name, "").strip()), None)
    address = env.get(provider.base_url_variable, "") if provider.base_url_variable else ""
    host = _host(base_url)
    endpoint = Endpoint(
        provider=provider.id,
        base_url=base_url,
        credential=env[key.name].strip() if key else "",
        auth=key.auth if key else "bearer",
        key_name=key.name if key else (provider.keys[-1].name if provider.keys else ""),
        version=provider.version if official else "2023-06-01",
        is_local=is_loopback(host) if provider.is_local else provider.own and is_near(host),
        api=provider.api,
        own=provider.own,
        extra=tuple((name.lower(), _expanded(name, value, provider, env)) for name, value in provider.headers),
        query=query_of(address) or provider.query,
    )
    return _signing(endpoint, env) if provider.api == "bedrock" and key is None else endpoint


_VARIABLE = re.compile(r"\$\{(\w+)\}")


def header_variables(provider: Provider) -> tuple[str, ...]:
    """Return the variables of the environment that its headers name."""
    return tuple(name for _, value in provider.headers for name in _VARIABLE.findall(value))


def _expanded(header: str, value: str, provider: Provider, env: Mapping[str, str]) -> str:
    """Return the value of a header with its variables filled in. Raises CannotStart for one that is not set."""
    missing = next((name for name in _VARIABLE.findall(value) if not env.get(name)), None)
    if missing is not None:
        raise CannotStart(
            "bad-settings",
            f"the header {header} of providers.{provider.id} needs {missing}, which is not set",
            do=[f"export {missing}=…", "or correct the header in your settings"],
            note="nothing was sent",
        )
    return _VARIABLE.sub(lambda found: env[found[1]].strip(), value)


def _signing(endpoint: Endpoint, env: Mapping[str, str]) -> Endpoint:
    """Return the endpoint with keys of AWS, which sign, where the environment has or names some."""
    from teamwright.models.providers.bedrock import find_signing

    found = find_signing(env)
    if found is None:
        return endpoint
    signing, name, secret = found
    return replace(endpoint, credential=secret, auth="signed", key_name=name, signing=signing)


def _require_address(provider: Provider, base_url: str) -> None:
    """Raise CannotStart for an unusable address: an unsupported scheme, or no host."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(base_url)
        callable_ = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        callable_ = False
    if not callable_:
        where = provider.base_url_variable or f"providers.{provider.id}.base_url"
        raise CannotStart(
            "bad-settings",
            f"{where} is not an address",
            looked_at=[("expected", "http://HOST:PORT or https://HOST, a path may follow")],
            do=[f"correct {where}, or leave it out"],
            note="nothing was sent",
        )


def _host(base_url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(base_url).hostname or ""
