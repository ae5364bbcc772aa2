"""Findings of `doctor` about a model of the user's own server: whether it answers, has the model, and supports what.

Sends requests only to that server, with a short deadline and without a prompt. Depends on `models.local_servers`.
"""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import RECOMMENDED_WINDOW, get_command, start_command, widen_command
from teamwright.models.model import ModelCard
from teamwright.models.model_facts import SERVER, is_set, source, with_server
from teamwright.models.server_facts import Unanswered, ask_server, served_models
from teamwright.views.doctor.finding import Finding

ANY_NAME = frozenset({"llamacpp", "lmstudio"})
"""Servers that accept other names than those that they list: they use the loaded model, or load it."""
SHOWN = 3


def of_own_server(card: ModelCard, endpoint: Endpoint) -> Iterator[Finding]:
    """Yield findings about the model's server, and about the model on it."""
    try:
        names = served_models(endpoint)
    except Unanswered as problem:
        yield _silent(endpoint, str(problem))
        return
    there = card.wire in names or f"{card.wire}:latest" in names or card.provider in ANY_NAME
    if there:
        yield Finding("model", "server", "answers" if card.provider in ANY_NAME else "answers, and has the model")
        return
    has = f"it has {', '.join(names[:SHOWN])}" if names else "it has no models"
    what = f"{endpoint.display_address} does not have {card.wire}; {has}"
    do = get_command(endpoint.provider, card.wire) or f"teamwright models {card.provider}"
    yield Finding("model", "server", what, "problem", do)


def _silent(endpoint: Endpoint, why: str) -> Finding:
    """Return the finding for a server that does not list its models; it may work all the same."""
    where, status = endpoint.display_address, why.startswith("HTTP status")
    if status and why.endswith(("401", "403")):
        do = (
            f"export {endpoint.key_name}=…"
            if endpoint.key_name
            else f"name the variable: providers.{endpoint.provider}.key_env"
        )
        return Finding("model", "server", f"{where} refuses the key ({why})", "problem", do)
    if status or why.startswith(("it lists", "the answer", "a proxy")):
        return Finding(
            "model", "server", f"{where} answers, and lists no models ({why})", "note", "teamwright doctor --live"
        )
    do = start_command(endpoint.provider) or f"start it, or correct providers.{endpoint.provider}.base_url"
    return Finding("model", "server", f"nothing answers at {where}: {endpoint.scrub(why)}", "problem", do)


def with_server_facts(card: ModelCard, endpoint: Endpoint) -> ModelCard:
    """Return the card, with facts from its server where that is the user's own."""
    return with_server(card, ask_server(endpoint, card.wire))


def facts_of(card: ModelCard, endpoint: Endpoint) -> Iterator[Finding]:
    """Yield findings about window, output limit and abilities, each with its source."""
    yield _window(card, endpoint)
    output = f"{card.max_output_tokens:,} tokens ({source(card, 'max_output_tokens')})"
    yield Finding("model", "output", output)
    for fact in ("tools", "images", "thinking", "parallel"):
        if any(name == fact for name, _ in card.sources):
            yield _ability(card, fact)
    for name, value in card.sampling:
        yield Finding("model", name, f"{value} ({source(card, 'sampling')})")


def _ability(card: ModelCard, fact: str) -> Finding:
    shown = f"{'yes' if getattr(card, fact) else 'no'} ({source(card, fact)})"
    if fact == "tools" and not card.tools:
        return Finding("model", fact, f"{shown}: agents cannot work without tools", "problem", "choose another model")
    return Finding("model", fact, shown)


def _window(card: ModelCard, endpoint: Endpoint) -> Finding:
    window, by = card.context_tokens, source(card, "context_tokens")
    shown = f"{window:,} tokens ({by})"
    if by == SERVER and window < RECOMMENDED_WINDOW // 2:
        few = f"{shown}: little for one agent, too little for a team"
        return Finding("model", "window", few, "note", widen_command(endpoint.provider, card.wire, window // 2))
    if endpoint.own and by not in {SERVER} and not is_set(card, "context_tokens"):
        entry = f'"models": {{"{card.name}": {{"context_tokens": N}}}}'
        return Finding("model", "window", f"{shown} until the server tells", "ok", f"where you know it better: {entry}")
    return Finding("model", "window", shown)
