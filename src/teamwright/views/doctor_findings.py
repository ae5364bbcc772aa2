"""Findings of `doctor` about a model of the user's own server, MCP servers, backends and the database of teams.

Sends requests only to the model's server, with a short deadline and without a prompt. Looks for programs and runs
`tmux -V`. Starts no MCP server and opens no terminal.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from teamwright.backends.adapter_backend import unusable_reason
from teamwright.backends.choice import SelectedBackend
from teamwright.backends.session_backends import BackendChoice
from teamwright.backends.settings import BackendSettings
from teamwright.backends.tmux_server import TmuxProgram
from teamwright.config.mcp_settings import configured_servers
from teamwright.config.settings.settings import Settings
from teamwright.mcp.listing_store import ListingStore
from teamwright.mcp.server_config import ServerConfig
from teamwright.models.catalog import SERVER, is_set, source, with_server
from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import RECOMMENDED_WINDOW, get_command, start_command, widen_command
from teamwright.models.model import ModelCard
from teamwright.models.model_server_queries import Unanswered, ask_server, served_models
from teamwright.protocol.errors import TeamwrightError
from teamwright.session.database_choice import find_database
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress
    from teamwright.database.server_checks import DatabaseFacts
    from teamwright.database.workers import WorkerStatus

Verdict: TypeAlias = Literal["ok", "note", "problem"]


class Finding(Struct, frozen=True):
    """One line: its section, the subject, the value, and the advice."""

    section: str
    label: str
    value: str
    verdict: Verdict = "ok"
    do: str = ""


class DoctorSubject(Struct, frozen=True):
    """The subject of `doctor`. `model` and `database` are the values of the flags; `env` is the environment.

    `at_terminal` is True when a person uses Teamwright at a terminal.
    """

    home: Home
    cwd: Path
    env: Mapping[str, str]
    model: str | None = None
    settings_file: Path | str | None = None
    database: str | None = None
    at_terminal: bool = False


ANY_NAME = frozenset({"llamacpp", "lmstudio"})
"""Servers that accept other names than those that they list: they use the loaded model, or load it."""
SHOWN = 3


def of_own_server(card: ModelCard, endpoint: Endpoint) -> Iterator[Finding]:
    """Yield findings about the model's server, and about the model on it."""
    try:
        names = served_models(endpoint)
    except Unanswered as problem:
        yield _silent_server(endpoint, str(problem))
        return
    there = card.wire in names or f"{card.wire}:latest" in names or card.provider in ANY_NAME
    if there:
        yield Finding("model", "server", "answers" if card.provider in ANY_NAME else "answers, and has the model")
        return
    has = f"it has {', '.join(names[:SHOWN])}" if names else "it has no models"
    what = f"{endpoint.display_address} does not have {card.wire}; {has}"
    do = get_command(endpoint.provider, card.wire) or f"teamwright models {card.provider}"
    yield Finding("model", "server", what, "problem", do)


def _silent_server(endpoint: Endpoint, why: str) -> Finding:
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
    yield _window_finding(card, endpoint)
    output = f"{card.max_output_tokens:,} tokens ({source(card, 'max_output_tokens')})"
    yield Finding("model", "output", output)
    for fact in ("tools", "images", "thinking", "parallel"):
        if any(name == fact for name, _ in card.sources):
            yield _ability_finding(card, fact)
    for name, value in card.sampling:
        yield Finding("model", name, f"{value} ({source(card, 'sampling')})")


def _ability_finding(card: ModelCard, fact: str) -> Finding:
    summary = f"{'yes' if getattr(card, fact) else 'no'} ({source(card, fact)})"
    if fact == "tools" and not card.tools:
        return Finding("model", fact, f"{summary}: agents cannot work without tools", "problem", "choose another model")
    return Finding("model", fact, summary)


def _window_finding(card: ModelCard, endpoint: Endpoint) -> Finding:
    window, by = card.context_tokens, source(card, "context_tokens")
    summary = f"{window:,} tokens ({by})"
    if by == SERVER and window < RECOMMENDED_WINDOW // 2:
        few = f"{summary}: little for one agent, too little for a team"
        return Finding("model", "window", few, "note", widen_command(endpoint.provider, card.wire, window // 2))
    if endpoint.own and by not in {SERVER} and not is_set(card, "context_tokens"):
        entry = f'"models": {{"{card.name}": {{"context_tokens": N}}}}'
        return Finding(
            "model", "window", f"{summary} until the server reports one", "ok", f"where you know it better: {entry}"
        )
    return Finding("model", "window", summary)


_SERVERS = "servers"


def server_findings(subject: DoctorSubject, settings: Settings) -> Iterator[Finding]:
    """Yield a line for each server, and one for each that is left out."""
    variables = {**subject.env, **settings.person_env}
    configs, warnings = configured_servers(
        settings.mcp, (), subject.cwd, variables, frozenset(), of_repository=settings.env
    )
    listings = ListingStore(subject.home.mcp_listings)
    for config in configs:
        yield _server_finding(config, subject, listings)
    for warning in warnings:
        yield Finding(_SERVERS, "left out", warning, "note")


def _server_finding(config: ServerConfig, subject: DoctorSubject, listings: ListingStore) -> Finding:
    listing = listings.load(config.digest, config.key)
    known = "never seen yet" if listing is None else f"{len(listing.tools)} tools"
    summary = f"{config.kind} {config.display_text}, {known}, by {config.source}"
    if config.kind == "stdio" and _is_program_missing(config, subject):
        do = f"{config.display_text} is not found: install it, or correct the entry"
        return Finding(_SERVERS, config.name, summary, "note", do)
    return Finding(_SERVERS, config.name, summary)


def _is_program_missing(config: ServerConfig, subject: DoctorSubject) -> bool:
    program = config.argv[0]
    if os.sep in program:
        return not os.access(config.cwd / program, os.X_OK)
    path = config.env.get("PATH") or subject.env.get("PATH")
    return shutil.which(program, path=path) is None


_MEMBERS = "members"


def places_findings(subject: DoctorSubject, settings: BackendSettings) -> Iterator[Finding]:
    """Yield the backend that members would get, and the available ones."""
    places = BackendChoice(subject.env, settings, logs=subject.home.own, at_terminal=subject.at_terminal)
    tmux, choice = asyncio.run(_preview_backend(places))
    setting = f"members.backend is {settings.backend}"
    if isinstance(choice, SelectedBackend):
        yield Finding(_MEMBERS, "backend", f"{choice.backend}: {setting}, and {choice.reason}")
    else:
        yield Finding(_MEMBERS, "backend", f"{setting}: {choice.what}", "problem", choice.do[0] if choice.do else "")
    yield _tmux_finding(tmux, subject)
    for name, adapter in places.adapters.items():
        reason, own = unusable_reason(adapter, subject.env), name in settings.adapters
        tried = f"tried with {adapter.tried}" if adapter.tried else "untried" if not own else "yours"
        if not reason:
            yield Finding(_MEMBERS, name, f"can be used ({tried})", "ok", f"to use it: teamwright --backend {name}")
        elif own or name == settings.backend:
            yield Finding(_MEMBERS, name, f"cannot be used: {reason}", "note", "see docs/reference/backends.md")


async def _preview_backend(places: BackendChoice) -> tuple[TmuxProgram, SelectedBackend | TeamwrightError]:
    try:
        choice: SelectedBackend | TeamwrightError = await places.preview()
    except TeamwrightError as problem:
        choice = problem
    return await places.tmux(), choice


def _tmux_finding(found: TmuxProgram, subject: DoctorSubject) -> Finding:
    where = "this terminal is in it" if subject.env.get("TMUX") else "this terminal is not in it"
    if found.problem:
        do = "not needed; members run in the lead's process then"
        return Finding(_MEMBERS, "tmux", found.problem, "note", do)
    return Finding(_MEMBERS, "tmux", f"{found.version} at {found.program}; {where}")


def database_findings(subject: DoctorSubject) -> Iterator[Finding]:
    """Return the findings about the database of teams and its workers, if one is named."""
    try:
        address = find_database(subject.database, subject.home, subject.env)
        if address is None:
            return
        facts, problems, workers = asyncio.run(_look_into_database(address))
    except TeamwrightError as problem:
        yield Finding("database", "address", problem.what, "problem", problem.do[0] if problem.do else "")
        return
    yield Finding("database", "address", str(address))
    yield Finding("database", "server", f"PostgreSQL {facts.server}, user {facts.user}")
    yield Finding("database", "schema", f"{facts.schema}, version {facts.version or 'none'}")
    for what, do in problems:
        yield Finding("database", "use", what, "problem", do)
    for worker in workers:
        offer = worker.offer
        state = f"{worker.free_slots} of {offer.slots} slots free" if worker.is_alive else "not running"
        yield Finding("database", offer.name, f"a worker on {offer.host}: {state}", "ok" if worker.is_alive else "note")
    yield from _connection_findings(facts, workers)


def _connection_findings(facts: DatabaseFacts, workers: list[WorkerStatus]) -> Iterator[Finding]:
    """Yield a note when the server accepts fewer connections than a lead, the workers and their members may open."""
    from teamwright.database.workers import count_connections

    if not workers or (needed := count_connections(workers)) <= facts.most_connections:
        return
    what = f"the server accepts {facts.most_connections}; a lead, the workers and members in all slots need {needed}"
    do = "raise max_connections in postgresql.conf, or start workers with fewer --slots"
    yield Finding("database", "connections", what, "note", do)


async def _look_into_database(
    address: DatabaseAddress,
) -> tuple[DatabaseFacts, list[tuple[str, str]], list[WorkerStatus]]:
    from teamwright.database.connection import Database
    from teamwright.database.server_checks import find_problems, read_facts
    from teamwright.database.workers import list_workers

    facts = await read_facts(address)
    if problems := find_problems(address, facts):
        return facts, problems, []
    database = await Database.open(address)
    try:
        return facts, [], await list_workers(database)
    finally:
        await database.close()
