"""The findings of `doctor`: machine, home, model, members, repository, settings, MCP servers and database.

Each finding is a line with a verdict. Nothing is changed, no MCP server is started and no terminal is opened. Requests
go only to model servers of this machine, to the model's own server without a prompt, and to a database that is named.
Keys are masked to their last four characters.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from teamwright.agent.prompt import COMPACT_WINDOW, gets_compact_prompt
from teamwright.agent.spawn_limits import SpawnSettings
from teamwright.backends.adapter_backend import unusable_reason
from teamwright.backends.choice import SelectedBackend
from teamwright.backends.session_backends import BackendChoice
from teamwright.backends.settings import BackendSettings
from teamwright.backends.tmux_server import TmuxProgram
from teamwright.config.mcp_settings import configured_servers
from teamwright.config.model_settings_parser import model_settings
from teamwright.config.settings.merge import load_settings, reads_other_product
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.trust import TrustState, TrustStore, agent_command
from teamwright.mcp.listing_store import ListingStore
from teamwright.mcp.server_config import ServerConfig
from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import (
    RECOMMENDED_WINDOW,
    LocalServer,
    find_local_servers,
    get_command,
    slots_command,
    start_command,
    widen_command,
)
from teamwright.models.model import ModelCard
from teamwright.models.model_server_queries import ServerFacts, Unanswered, ask_server, served_models
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import SERVER, is_set, known_providers, resolve_model, source, with_server
from teamwright.processes.program_environment import find_program
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.program_log import debug_categories
from teamwright.sandbox.policy import SandboxMode, SandboxSettings
from teamwright.sandbox.sandbox import report_sandbox
from teamwright.session.command_start import find_database, platform_name, require_platform
from teamwright.session.wiring.shell_startup import describe_shell
from teamwright.session.wiring.telemetry import is_telemetry_on
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress
    from teamwright.database.administration import DatabaseFacts
    from teamwright.database.worker_orders import WorkerStatus

NO_SETTINGS = SpawnSettings()
"""The caps without settings."""

Verdict: TypeAlias = Literal["ok", "note", "problem"]


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
    debug: str = ""
    """The value of `--debug`."""


class Finding(Struct, frozen=True):
    """One line: its section, the subject, the value, and the advice."""

    section: str
    label: str
    value: str
    verdict: Verdict = "ok"
    do: str = ""


SECTIONS = ("machine", "model", "members", "repository", "settings", "servers", "database", "telemetry", "debug log")


def find_problems(subject: DoctorSubject) -> list[Finding]:
    """Return all findings, by section. Never raises for a fault that it finds."""
    findings = [*_machine(subject), home := _home(subject.home)]
    if home.verdict == "problem":
        return [*findings, *_model(subject, ModelSettings(), {})]
    findings += _person(subject.home)
    try:
        trust, settings = _read(subject)
        for_models = model_settings(settings)
    except TeamwrightError as problem:
        return [*findings, *_model(subject, ModelSettings(), {}), _trouble("settings", "file", problem)]
    findings += _model(subject, for_models, settings.origins, settings.limits)
    findings += places_findings(subject, settings.places)
    findings += _repository(trust)
    findings += [*_settings(settings), _shell(subject, settings), _sandbox(settings.sandbox)]
    return [
        *findings,
        *server_findings(subject, settings),
        *database_findings(subject),
        *telemetry_findings(subject, settings),
        *_debug_findings(subject),
    ]


def models_settings(subject: DoctorSubject) -> ModelSettings:
    """Return the models' settings in effect. Raises CannotStart (`bad-settings`)."""
    return model_settings(_read(subject)[1])


def _read(subject: DoctorSubject) -> tuple[TrustState, Settings]:
    flags = SettingFlags(model=subject.model, settings_file=subject.settings_file)
    trust = TrustStore.load(subject.home).verdict(subject.cwd, compat=reads_other_product(subject.home, flags))
    return trust, load_settings(subject.home, subject.cwd, flags, trust)


def _trouble(section: str, label: str, problem: TeamwrightError) -> Finding:
    facts = "; ".join(f"{name} {value}".strip() for name, value in problem.looked_at if name != "found")
    value = problem.what + (f" ({facts})" if facts else "")
    return Finding(section, label, value, "problem", problem.do[0] if problem.do else "")


# ── machine ────────────────────────────────────────────────────────────────────────────────────────────────────


def _machine(subject: DoctorSubject) -> Iterator[Finding]:
    try:
        require_platform()
        yield Finding("machine", "platform", platform_name())
    except TeamwrightError as problem:
        yield _trouble("machine", "platform", problem)
    yield Finding("machine", "python", f"{sys.version.split()[0]} at {sys.executable}")
    yield _program("git", "problem", "agents look at history and files with it: install git")
    yield _program("rg", "note", "not needed; Grep is faster with ripgrep in large trees")


def _person(home: Home) -> Iterator[Finding]:
    if (found := agent_command(home)) is not None:
        what = f"this process counts as a command of an agent, and cannot answer requests: {found.fact} {found.value}"
        yield Finding("machine", "person", what, "note", "use a terminal that no agent has opened")


def _program(name: str, missing: Verdict, why: str) -> Finding:
    found = find_program(name)
    if not found and (only := shutil.which(name)):
        what = f"{only} is not used: commands of agents can change its directory"
        return Finding("machine", name, what, missing, why)
    return Finding("machine", name, found) if found else Finding("machine", name, "not found", missing, why)


def _home(home: Home) -> Finding:
    """Return the finding about reading and writing the home, without creating it."""
    try:
        place = home.require_readable().own
    except TeamwrightError as problem:
        return _trouble("machine", "home", problem)
    path = str(place)
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Finding("machine", "home", f"{path} cannot be written", "problem", "teamwright --home DIR …")
    mode = home.own.stat().st_mode & 0o777 if home.own.is_dir() else 0o700
    if mode & 0o077 and not home.is_foreign:
        return Finding("machine", "home", f"{path} can be read by others ({mode:o})", "note", f"chmod 700 {path}")
    return Finding("machine", "home", path + ("" if home.own.is_dir() else " (made with the first session)"))


# ── model ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _model(
    subject: DoctorSubject, settings: ModelSettings, origins: Mapping[str, str], limits: SpawnSettings = NO_SETTINGS
) -> Iterator[Finding]:
    name = subject.model or settings.model
    why = f"named by {origins.get('model', '--model')}" if name else "nothing names one, so the default"
    if name is not None and name.startswith("scripted:"):
        yield Finding("model", "model", f"{name}: {why}; no key, no network")
        return
    try:
        card, endpoint = resolve_model(name, subject.env, settings)
    except TeamwrightError as problem:
        yield _trouble("model", "model", problem)
    else:
        yield Finding("model", "model", f"{card.name}: {why}")
        yield Finding("model", "address", endpoint.display_address)
        yield Finding("model", "key", endpoint.display_key)
        if endpoint.own:
            yield from of_own_server(card, endpoint)
            reported = ask_server(endpoint, card.wire)
            card = with_server(card, reported)
            most = known_providers(settings)[card.provider].requests
            yield from slot_findings(endpoint, reported, most, limits.members + 1)
        yield from facts_of(card, endpoint)
        yield _prompt_finding(card, settings)
        yield _price_finding(card)
    if subject.env.get("ANTHROPIC_AUTH_TOKEN") and subject.env.get("ANTHROPIC_API_KEY"):
        yield Finding("model", "both keys", "ANTHROPIC_AUTH_TOKEN wins over ANTHROPIC_API_KEY", "note")
    servers = find_local_servers(subject.env)
    for server in servers:
        if not (name or "").startswith(f"{server.provider}/"):
            yield Finding("model", "found", str(server), "note", _how_to_use(server))
    if not servers:
        yield Finding("model", "found", "no local model server answers on its usual port")


def _how_to_use(server: LocalServer) -> str:
    if not server.models:
        return get_command(server.provider)
    return f"to use it: teamwright --model {server.provider}/{server.models[0].id}"


def _price_finding(card: ModelCard) -> Finding:
    if card.usd_in is None or card.usd_out is None:
        return Finding("model", "price", "unknown: a cap on money is refused", "note", 'set "prices" in your settings')
    by = source(card, "price")
    return Finding("model", "price", f"{card.usd_in:g} USD in, {card.usd_out:g} out, for a million tokens ({by})")


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
    where = endpoint.display_address
    status = why.startswith("HTTP status")
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


def slot_findings(
    endpoint: Endpoint, reported: ServerFacts, most_requests: int | None, agents: int
) -> Iterator[Finding]:
    """Yield the finding about how many agents the server serves at once. `agents` are a lead and all its teammates,
    `most_requests` is the setting of the provider.
    """
    slots = most_requests or reported.slots
    team = f"a team may have {agents} agents (limits.members)"
    do = slots_command("llamacpp" if reported.progress else endpoint.provider, agents)
    if slots is None and do:
        entry = f'"providers": {{"{endpoint.provider}": {{"requests": N}}}}'
        yield Finding("model", "slots", f"not reported; {team}", "ok", f"{do}          (and {entry})")
    elif slots is not None:
        summary = f"{slots} ({'settings: providers' if most_requests else SERVER})"
        if slots >= agents:
            yield Finding("model", "slots", summary)
        else:
            more = f"{do}          (or lower limits.members)" if do else "raise requests, or lower limits.members"
            yield Finding("model", "slots", f"{summary}: {team}, and the others wait", "note", more)


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


def _prompt_finding(card: ModelCard, settings: ModelSettings) -> Finding:
    """Return which prompt agents with this model get."""
    size = "compact" if gets_compact_prompt(None, settings, card) else "full"
    by = "the setting prompt" if settings.prompt is not None else f"compact up to {COMPACT_WINDOW:,} tokens of window"
    return Finding("model", "prompt", f"{size} ({by})")


def _ability_finding(card: ModelCard, fact: str) -> Finding:
    summary = f"{'yes' if getattr(card, fact) else 'no'} ({source(card, fact)})"
    if fact == "tools" and not card.tools:
        return Finding("model", fact, f"{summary}: agents cannot work without tools", "problem", "choose another model")
    return Finding("model", fact, summary)


def _window_finding(card: ModelCard, endpoint: Endpoint) -> Finding:
    window = card.context_tokens
    by = source(card, "context_tokens")
    summary = f"{window:,} tokens ({by})"
    if by == SERVER and window < RECOMMENDED_WINDOW // 2:
        few = f"{summary}: little for one agent, too little for a team"
        return Finding("model", "window", few, "note", widen_command(endpoint.provider, card.wire, window // 2))
    if endpoint.own and by != SERVER and not is_set(card, "context_tokens"):
        entry = f'"models": {{"{card.name}": {{"context_tokens": N}}}}'
        return Finding(
            "model", "window", f"{summary} until the server reports one", "ok", f"where you know it better: {entry}"
        )
    return Finding("model", "window", summary)


# ── members ────────────────────────────────────────────────────────────────────────────────────────────────────


def places_findings(subject: DoctorSubject, settings: BackendSettings) -> Iterator[Finding]:
    """Yield the backend that members would get, and the available ones."""
    places = BackendChoice(subject.env, settings, logs=subject.home.own, at_terminal=subject.at_terminal)
    tmux, choice = asyncio.run(_preview_backend(places))
    setting = f"members.backend is {settings.backend}"
    if isinstance(choice, SelectedBackend):
        yield Finding("members", "backend", f"{choice.backend}: {setting}, and {choice.reason}")
    else:
        yield Finding("members", "backend", f"{setting}: {choice.what}", "problem", choice.do[0] if choice.do else "")
    yield _tmux_finding(tmux, subject)
    for name, adapter in places.adapters.items():
        reason = unusable_reason(adapter, subject.env)
        own = name in settings.adapters
        tried = f"tried with {adapter.tried}" if adapter.tried else "untried" if not own else "yours"
        if not reason:
            yield Finding("members", name, f"can be used ({tried})", "ok", f"to use it: teamwright --backend {name}")
        elif own or name == settings.backend:
            yield Finding("members", name, f"cannot be used: {reason}", "note", "see docs/reference/backends.md")


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
        return Finding("members", "tmux", found.problem, "note", do)
    return Finding("members", "tmux", f"{found.version} at {found.program}; {where}")


# ── repository, settings ───────────────────────────────────────────────────────────────────────────────────────


def _repository(trust: TrustState) -> Iterator[Finding]:
    yield Finding("repository", "root", str(trust.root))
    waiting = len(trust.needs_asking)
    if waiting:
        what = f"entries that have no effect until you trust them: {waiting}"
        yield Finding("repository", "trust", what, "note", "teamwright trust")
    else:
        yield Finding("repository", "trust", "trusted" if trust.trusted else "it has nothing that would need trust")


def _settings(settings: Settings) -> Iterator[Finding]:
    files = list(dict.fromkeys(origin for origin in settings.origins.values() if not origin.startswith("--")))
    for file in files:
        names = [name for name, origin in settings.origins.items() if origin == file]
        yield Finding("settings", "file", f"{file}: {', '.join(names[:4])}" + (" …" if len(names) > 4 else ""))
    if not files:
        yield Finding("settings", "file", "none: all values are defaults")
    for warning in settings.warnings:
        yield Finding("settings", "left out", warning, "note")


def _shell(subject: DoctorSubject, settings: Settings) -> Finding:
    try:
        return Finding("settings", "shell", describe_shell(settings.bash, subject.env))
    except TeamwrightError as problem:
        return _trouble("settings", "shell", problem)


def _sandbox(settings: SandboxSettings) -> Finding:
    """Return the finding about the sandbox of commands, which runs a command to see if it works."""
    report = report_sandbox(settings)
    if report.implementation != "none":
        return Finding("settings", "sandbox", str(report))
    verdict = "problem" if settings.mode is SandboxMode.REQUIRED else "note"
    do = "set sandbox.mode to auto" if settings.mode is SandboxMode.OFF else "install bubblewrap"
    return Finding("settings", "sandbox", str(report), verdict, do)


# ── MCP servers ────────────────────────────────────────────────────────────────────────────────────────────────


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
        yield Finding("servers", "left out", warning, "note")


def _server_finding(config: ServerConfig, subject: DoctorSubject, listings: ListingStore) -> Finding:
    listing = listings.load(config.digest, config.key)
    known = "never seen yet" if listing is None else f"{len(listing.tools)} tools"
    summary = f"{config.kind} {config.display_text}, {known}, by {config.source}"
    if config.kind == "stdio" and _is_program_missing(config, subject):
        do = f"{config.display_text} is not found: install it, or correct the entry"
        return Finding("servers", config.name, summary, "note", do)
    return Finding("servers", config.name, summary)


def _is_program_missing(config: ServerConfig, subject: DoctorSubject) -> bool:
    program = config.argv[0]
    if os.sep in program:
        return not os.access(config.cwd / program, os.X_OK)
    path = config.env.get("PATH") or subject.env.get("PATH")
    return shutil.which(program, path=path) is None


# ── database ───────────────────────────────────────────────────────────────────────────────────────────────────


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


def telemetry_findings(subject: DoctorSubject, settings: Settings) -> Iterator[Finding]:
    """Return where spans and metrics go; nothing without telemetry."""
    from teamwright.telemetry.otlp import otlp_address, require_exporter

    if not is_telemetry_on(subject.env, settings):
        return
    try:
        require_exporter()
        for kind in ("traces", "metrics"):
            yield Finding("telemetry", kind, otlp_address(subject.env, kind).shown)
    except TeamwrightError as problem:
        yield Finding("telemetry", "export", problem.what, "problem", problem.do[0] if problem.do else "")


def _debug_findings(subject: DoctorSubject) -> Iterator[Finding]:
    """Return where sessions keep their debug logs; nothing when they keep none."""
    if categories := debug_categories(subject.debug, subject.env):
        newest = subject.home.debug / "latest"
        yield Finding("debug log", "newest", f"{newest}: {', '.join(categories)}")


def _connection_findings(facts: DatabaseFacts, workers: list[WorkerStatus]) -> Iterator[Finding]:
    """Yield a note when the server accepts fewer connections than a lead, the workers and their members may open."""
    from teamwright.database.worker_orders import count_connections

    if not workers or (needed := count_connections(workers)) <= facts.most_connections:
        return
    what = f"the server accepts {facts.most_connections}; a lead, the workers and members in all slots need {needed}"
    do = "raise max_connections in postgresql.conf, or start workers with fewer --slots"
    yield Finding("database", "connections", what, "note", do)


async def _look_into_database(
    address: DatabaseAddress,
) -> tuple[DatabaseFacts, list[tuple[str, str]], list[WorkerStatus]]:
    from teamwright.database import administration
    from teamwright.database.connection import Database
    from teamwright.database.worker_orders import list_workers

    facts = await administration.read_facts(address)
    if problems := administration.find_problems(address, facts):
        return facts, problems, []
    database = await Database.open(address)
    try:
        return facts, [], await list_workers(database)
    finally:
        await database.close()
