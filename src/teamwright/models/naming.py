"""Names of models as people write them: forms of another product, and names without their provider.

Depends on the catalogue's names; `model_names` finds the provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from teamwright.protocol.errors import CannotStart

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
    ways += [f"teamwright --model {provider}/{name}" for wanted, provider in _VENDORS if wanted.match(name)]
    if not served and _OPEN.match(name):
        ways.append(f"teamwright --model ollama/{name}   (or lmstudio, llamacpp, vllm, sglang)")
    ways += [f"teamwright --model {one}/{name}" for one in own[:2]]
    entry = '{"providers": {"NAME": {"base_url": "http://HOST:PORT/v1", "api": "openai-chat"}}}'
    ways.append(f"--model NAME/{name} for another server, with {entry} in settings.json (docs/providers.md)")
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
