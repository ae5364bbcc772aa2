"""Failures of models as texts of errors: what happened, the values that were checked, advice, a slug.

Depends on endpoints and service errors. Retries are decided elsewhere. No key is in any of these texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import get_command, start_command, widen_command
from teamwright.models.model import REQUEST_ID, SEEN, SERVICE_SAID, Failure, ModelCard
from teamwright.models.service_error import (
    ServiceError,
    is_context_full,
    is_key_refused,
    is_path_unknown,
    is_request_refused,
    is_unparsed_call,
    is_worth_retrying,
)
from teamwright.models.truncated_prompt_check import PromptCut
from teamwright.protocol.ids import nearest

OTHER_APIS: Mapping[str, str] = {
    "messages": "openai-chat",
    "openai-chat": "messages",
    "openai-responses": "openai-chat",
    "gemini": "openai-chat",
}
"""The API that a server most likely has when it does not have this one."""
MAX_LISTED = 5
"""The number of model names that an error lists."""


class FailureText(Struct, frozen=True):
    """The text of a service error, before the facts that all failures share are added."""

    slug: str
    what: str
    do: tuple[str, ...] = ()
    key: bool = False
    retriable: bool = False


def to_failure(trouble: ServiceError, card: ModelCard, endpoint: Endpoint, tries: int, *, answered: bool) -> Failure:
    """Return the last part of a failed stream. `answered`: this service has answered before in this process."""
    if is_unparsed_call(trouble):
        explanation = FailureText(
            "model-failed", f"{card.name} wrote a tool call that {endpoint.provider} cannot parse"
        )
    elif trouble.kind == "http":
        explanation = _refusal_text(trouble, card, endpoint)
    else:
        explanation = _silence_text(trouble, endpoint)
    explanation = replace(explanation, retriable=explanation.retriable or is_worth_retrying(trouble))
    service_text = endpoint.scrub(trouble.message)
    looked_at = [("model", f"{card.name} at {endpoint.display_address}")]
    if explanation.key:
        looked_at.append(("key", endpoint.display_key))
    if service_text and service_text not in explanation.what:
        looked_at.append((SERVICE_SAID if trouble.kind == "http" else SEEN, service_text))
    if trouble.answer.request_id:
        looked_at.append((REQUEST_ID, endpoint.scrub(trouble.answer.request_id)))
    if tries > 1:
        looked_at.append(("tried", f"{tries} times"))
    return Failure(
        explanation.slug,
        explanation.what,
        looked_at=tuple(looked_at),
        do=explanation.do,
        retriable=explanation.retriable,
        before_first_reply=not answered,
        http_status=trouble.answer.status,
        refuses_request=is_request_refused(trouble),
        prompt_tokens=trouble.answer.prompt_tokens,
    )


def cut_prompt_failure(cut: PromptCut, card: ModelCard, endpoint: Endpoint) -> Failure:
    """Return the failure of an answer to a prompt of which the server read only a part."""
    return Failure(
        "window-too-small",
        f"this server cut the prompt: {cut.sent:,} tokens sent, {cut.read:,} read",
        looked_at=(("model", f"{card.name} at {endpoint.display_address}"),),
        do=(widen_command(endpoint.provider, card.wire, cut.sent),),
    )


def no_room_failure(head: int, window: int, card: ModelCard, endpoint: Endpoint) -> Failure:
    """Return the failure of a prompt that cannot fit: the prefix of every conversation has `head` tokens."""
    return Failure(
        "window-too-small",
        f"a window of {window:,} tokens is too small: {head:,} are needed before every conversation",
        looked_at=(("model", f"{card.name} at {endpoint.display_address}"),),
        do=(widen_command(endpoint.provider, card.wire, head),),
        before_first_reply=True,
    )


def with_served_models(failure: Failure, names: Sequence[str], card: ModelCard) -> Failure:
    """Return the failure of a model that a local server does not have, with a list of the models that it has."""
    model_list = ", ".join(names[:MAX_LISTED]) + (f" and {len(names) - MAX_LISTED} more" if names[MAX_LISTED:] else "")
    close = next((one for one in names if one.startswith(card.wire)), None) or nearest(card.wire, names)
    ways = (f"did you mean {card.provider}/{close}?",) if close else ()
    ways += (get,) if (get := get_command(card.provider, card.wire)) else ()
    ways += tuple(f"teamwright --model {card.provider}/{one}" for one in names[:1] if not close)
    return replace(failure, looked_at=(*failure.looked_at, ("it has", model_list or "no models")), do=ways)


def _refusal_text(trouble: ServiceError, card: ModelCard, endpoint: Endpoint) -> FailureText:
    status, name = trouble.answer.status, endpoint.provider
    if is_context_full(trouble):
        return FailureText(
            "context-full",
            f"the conversation no longer fits into the window of {card.name}",
            ("compact the conversation", "choose a model with a larger window"),
        )
    if is_key_refused(trouble):
        key = endpoint.key_name or "the key"
        return FailureText("wrong-key", f"{name} does not accept {key}", _new_key(endpoint), key=True)
    if status == 403:
        return FailureText("no-access", f"{name} refused access (HTTP 403)", _check_access(endpoint), key=True)
    if (status == 404 and not is_path_unknown(trouble)) or "model identifier is invalid" in trouble.message:
        return FailureText(
            "unknown-model", f"{name} does not have the model {card.wire}", (f"teamwright models {name}",)
        )
    if _NO_TOOLS.search(trouble.message):
        return FailureText(
            "model-failed", f"{card.wire} at {name} does not call tools, and agents need them", _tools(endpoint)
        )
    if is_path_unknown(trouble):
        other = OTHER_APIS.get(endpoint.api) if endpoint.own or endpoint.is_local else None
        advice = f'a newer version of it, or a provider of your own with "api": "{other}" (docs/reference/providers.md)'
        ways = (*_check_address(endpoint), *([advice] if other else []))
        return FailureText("no-network", f"{endpoint.display_address} does not speak {endpoint.facts.title}", ways)
    if status == 402:
        return FailureText(
            "model-failed", f"{name} refuses for billing reasons", ("check the account's balance",), retriable=True
        )
    if status in (429, 529):
        word = "is limiting requests" if status == 429 else "is overloaded"
        return FailureText("model-failed", f"{name} {word} (HTTP {status})", ("continue later: all state is saved",))
    if 300 <= status < 400:
        return FailureText(
            "model-failed", f"{name} answered with a redirect, which is not followed", _check_address(endpoint)
        )
    verb = "could not answer" if status >= 500 else "refused the request"
    return FailureText("model-failed", f"{name} {verb} (HTTP {status})")


_NO_TOOLS = re.compile(
    r"does not support (?:tools|tool|function)|tool (?:choice|use|calling).{0,40}(?:requires|not (?:enabled|supported))"
    r"|tools? (?:is|are) not supported|--enable-auto-tool-choice|requires? --jinja|tools param requires",
    re.I,
)
"""Error texts of servers whose model, or whose start command, does not support tools."""
_WITH_TOOLS = {
    "llamacpp": "start it with tools: llama-server --jinja -m FILE.gguf",
    "vllm": "start it with tools: vllm serve MODEL --enable-auto-tool-choice --tool-call-parser NAME",
    "sglang": "start it with tools: sglang serve --model-path MODEL --tool-call-parser NAME",
}


def _tools(endpoint: Endpoint) -> tuple[str, ...]:
    start = _WITH_TOOLS.get(endpoint.provider)
    ways = (start,) if start else tuple(_WITH_TOOLS.values()) if endpoint.provider not in _ONE_WAY else ()
    return (f"choose a model that is made for tools: teamwright models {endpoint.provider}", *ways)


_ONE_WAY = frozenset({"ollama", "lmstudio", "openrouter", "anthropic", "openai", "google", "bedrock"})
"""Providers for which the only advice is another model."""


def _silence_text(trouble: ServiceError, endpoint: Endpoint) -> FailureText:
    name = endpoint.provider
    if trouble.kind == "setup":
        return FailureText("no-network", f"{name} cannot be called: {trouble.message}", _set_up(trouble.message))
    if trouble.kind == "connect" and _TLS.search(trouble.message):
        return FailureText(
            "no-network", f"the TLS connection to {name} at {endpoint.display_address} failed", _tls(endpoint)
        )
    if trouble.kind == "connect":
        return FailureText(
            "no-network", f"{name} at {endpoint.display_address} could not be reached", _check_connection(endpoint)
        )
    if trouble.kind == "stalled":
        return FailureText("model-failed", f"{name} {trouble.message}", ("continue later: all state is saved",))
    if trouble.kind == "endless":
        return FailureText(
            "model-failed",
            f"the answer of {name} did not end: it was cut at several times the maximum that was asked for",
            ("check that the server keeps the limit of an answer (max_tokens)",),
        )
    if trouble.kind == "broken":
        return FailureText(
            "model-failed", f"the answer of {name} stopped short", ("continue later: all state is saved",)
        )
    return FailureText(
        "model-failed", f"what {name} sent is not an answer of {endpoint.facts.title}", _check_address(endpoint)
    )


def _set_up(message: str) -> tuple[str, ...]:
    """Return advice on a variable of the environment that prevents connections."""
    if "socksio" in message:
        return ("pip install socksio", "or unset the variable that names the proxy")
    if "certificates" in message:
        return ("correct or unset SSL_CERT_FILE and SSL_CERT_DIR",)
    return ("correct or unset the variable that names the proxy",)


_TLS = re.compile(r"certificate|\bssl\b|\btls\b|wrong version number|handshake", re.I)


def _tls(endpoint: Endpoint) -> tuple[str, ...]:
    """Return advice on an answer without TLS, or with a certificate that is not trusted."""
    http = f"if it has no TLS: http://{endpoint.display_address}"
    return (http, "if its certificate is your own: export SSL_CERT_FILE=PATH_OF_THE_CERTIFICATE")


def _check_connection(endpoint: Endpoint) -> tuple[str, ...]:
    """Return advice for a service that does not answer; on this machine no network is involved."""
    start = start_command(endpoint.provider) if endpoint.is_local else ""
    if start:
        return (f"start {endpoint.provider}: {start}",)
    if endpoint.is_on_this_machine and endpoint.uses_tls:
        return (*_tls(endpoint)[:1], f"or start what listens at {endpoint.display_address}")
    if endpoint.is_on_this_machine:
        return (f"start what listens at {endpoint.display_address}, then try again",)
    return ("check the network and the proxy settings",)


def _new_key(endpoint: Endpoint) -> tuple[str, ...]:
    return (f"export {endpoint.key_name}=…",) if endpoint.key_name else ("check the key",)


def _check_access(endpoint: Endpoint) -> tuple[str, ...]:
    """Return advice for a known key without access: a permission, a region, a proxy."""
    return (f"check what this account and key may use, and who answers at {endpoint.display_address}",)


def _check_address(endpoint: Endpoint) -> tuple[str, ...]:
    if endpoint.provider == "anthropic":
        return ("check ANTHROPIC_BASE_URL",)
    return (f"check the address of {endpoint.provider}: it must serve POST {endpoint.facts.path}",)
