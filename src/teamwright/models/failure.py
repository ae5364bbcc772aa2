"""Failures in the form of our errors: what happened, what was looked at, what to do, a slug.

Knows endpoints and troubles; decides nothing about trying again. No key is in any of these texts.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Failure, ModelCard
from teamwright.models.prompt_check import Cut
from teamwright.models.trouble import Trouble, context_is_full, worth_retrying
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """What a trouble comes to, before the facts that all failures share are added."""

    slug: str
    what: str
    do: tuple[str, ...] = ()
    key: bool = False
    retriable: bool = False


def failure_of(trouble: Trouble, card: ModelCard, endpoint: Endpoint, tries: int, *, answered: bool) -> Failure:
    """The last part of a stream that failed. `answered`: this service has answered before in this process."""
    told = _refused(trouble, card, endpoint) if trouble.kind == "http" else _silent(trouble, endpoint)
    told = replace(told, retriable=told.retriable or worth_retrying(trouble))
    said = endpoint.scrub(trouble.message)
    looked_at = [("model", f"{card.name} at {endpoint.where}")]
    if told.key:
        looked_at.append(("key", endpoint.shown_key))
    if said and said not in told.what:
        looked_at.append(("it said", said))
    if trouble.answer.request_id:
        looked_at.append(("request", endpoint.scrub(trouble.answer.request_id)))
    if tries > 1:
        looked_at.append(("tried", f"{tries} times"))
    return Failure(
        told.slug,
        told.what,
        looked_at=tuple(looked_at),
        do=told.do,
        retriable=told.retriable,
        before_first_reply=not answered,
    )


def cut_prompt(cut: Cut, card: ModelCard, endpoint: Endpoint) -> Failure:
    """The failure of an answer to a prompt of which the server read only a part."""
    room = max(65_536, 2 ** (cut.sent * 2 - 1).bit_length())
    do = {
        "ollama": f"OLLAMA_CONTEXT_LENGTH={room} ollama serve",
        "llamacpp": f"llama-server -c {room} …",
        "vllm": f"vllm serve … --max-model-len {room}",
        "sglang": f"sglang serve … --context-length {room}",
        "lmstudio": f"lms load {card.wire} --context-length {room}",
    }.get(endpoint.provider, f"give the server a window of {room:,} tokens")
    return Failure(
        "window-too-small",
        f"this server cut the prompt: {cut.sent:,} tokens sent, {cut.read:,} read",
        looked_at=(("model", f"{card.name} at {endpoint.where}"),),
        do=(f"{do}          (64k or more for a team)",),
    )


def _refused(trouble: Trouble, card: ModelCard, endpoint: Endpoint) -> Told:
    status, name = trouble.answer.status, endpoint.provider
    if context_is_full(trouble):
        return Told(
            "context-full",
            f"the conversation no longer fits into the window of {card.name}",
            ("compact the conversation", "choose a model with a larger window"),
        )
    if status in (401, 403):
        key = endpoint.key_name or "the key"
        return Told("wrong-key", f"{name} does not accept {key}", _new_key(endpoint), key=True)
    if (status == 404 and trouble.answer.type) or "model identifier is invalid" in trouble.message:
        return Told("unknown-model", f"{name} does not have the model {card.wire}", (f"teamwright models {name}",))
    if status == 404:
        return Told("no-network", f"{endpoint.where} does not speak {endpoint.facts.title}", _check_address(endpoint))
    if status == 402:
        return Told(
            "model-failed", f"{name} refuses for billing reasons", ("check the account's balance",), retriable=True
        )
    if status in (429, 529):
        word = "is limiting requests" if status == 429 else "is overloaded"
        return Told("model-failed", f"{name} {word} (HTTP {status})", ("go on later: nothing was lost",))
    if 300 <= status < 400:
        return Told("model-failed", f"{name} answered with a redirect, which is not followed", _check_address(endpoint))
    return Told("model-failed", f"{name} refused the request (HTTP {status})")


def _silent(trouble: Trouble, endpoint: Endpoint) -> Told:
    name = endpoint.provider
    if trouble.kind == "connect":
        do = (f"start {name}, then try again",) if endpoint.local else ("check the network and the proxy settings",)
        return Told("no-network", f"{name} at {endpoint.where} could not be reached", do)
    if trouble.kind == "stalled":
        return Told("model-failed", f"{name} stopped sending", ("go on later: nothing was lost",))
    if trouble.kind == "broken":
        return Told("model-failed", f"the answer of {name} stopped short", ("go on later: nothing was lost",))
    return Told(
        "model-failed", f"what {name} sent is not an answer of {endpoint.facts.title}", _check_address(endpoint)
    )


def _new_key(endpoint: Endpoint) -> tuple[str, ...]:
    return (f"export {endpoint.key_name}=…",) if endpoint.key_name else ("check the key",)


def _check_address(endpoint: Endpoint) -> tuple[str, ...]:
    if endpoint.provider == "anthropic":
        return ("check ANTHROPIC_BASE_URL",)
    return (f"check the address of {endpoint.provider}: it must serve POST {endpoint.facts.path}",)
