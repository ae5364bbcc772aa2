"""The findings of `doctor`: machine, home, model, local servers, trust and settings.

Each finding is a line with a verdict. Nothing is changed. Requests go only to ports of this machine, and to a database
that is named. Keys are masked to their last four characters. Depends on the packages with the answers.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping

from teamwright.config.model_settings_parser import model_settings
from teamwright.config.person_authority import agent_command
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.settings_merge import load_settings, reads_other_product
from teamwright.config.trust_store import TrustState, TrustStore
from teamwright.models.catalog import source
from teamwright.models.local_servers import LocalServer, find_local_servers, get_command
from teamwright.models.model import ModelCard
from teamwright.models.model_names import resolve_model
from teamwright.models.model_settings import ModelSettings
from teamwright.processes.program_environment import find_program
from teamwright.protocol.errors import TeamwrightError
from teamwright.sandbox.policy import SandboxMode, SandboxSettings
from teamwright.sandbox.sandbox import report_sandbox
from teamwright.session.platform_check import platform_name, require_platform
from teamwright.session.wiring.shell_startup import describe_shell
from teamwright.storage.paths import Home
from teamwright.views.doctor_findings import (
    DoctorSubject,
    Finding,
    Verdict,
    database_findings,
    facts_of,
    of_own_server,
    places_findings,
    server_findings,
    with_server_facts,
)

SECTIONS = ("machine", "model", "members", "repository", "settings", "servers", "database")


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
    findings += _model(subject, for_models, settings.origins)
    findings += places_findings(subject, settings.places)
    findings += _repository(trust)
    findings += [*_settings(settings), _shell(subject, settings), _sandbox(settings.sandbox)]
    return [*findings, *server_findings(subject, settings), *database_findings(subject)]


def models_settings(subject: DoctorSubject) -> ModelSettings:
    """Return the models' settings in effect. Raises CannotStart (`bad-settings`)."""
    return model_settings(_read(subject)[1])


def _read(subject: DoctorSubject) -> tuple[TrustState, Settings]:
    flags = SettingFlags(model=subject.model, settings_file=subject.settings_file)
    trust = TrustStore.load(subject.home).verdict(subject.cwd, compat=reads_other_product(subject.home, flags))
    return trust, load_settings(subject.home, subject.cwd, flags, trust)


# ── machine ──────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── model ────────────────────────────────────────────────────────────────────────────────────────────────────


def _model(subject: DoctorSubject, settings: ModelSettings, origins: Mapping[str, str]) -> Iterator[Finding]:
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
            card = with_server_facts(card, endpoint)
        yield from facts_of(card, endpoint)
        yield _price(card)
    if subject.env.get("ANTHROPIC_AUTH_TOKEN") and subject.env.get("ANTHROPIC_API_KEY"):
        yield Finding("model", "both keys", "ANTHROPIC_AUTH_TOKEN wins over ANTHROPIC_API_KEY", "note")
    servers = find_local_servers(subject.env)
    for server in servers:
        if not (name or "").startswith(f"{server.provider}/"):
            yield Finding("model", "found", str(server), "note", _use(server))
    if not servers:
        yield Finding("model", "found", "no local model server answers on its usual port")


def _use(server: LocalServer) -> str:
    if not server.models:
        return get_command(server.provider)
    return f"to use it: teamwright --model {server.provider}/{server.models[0].id}"


def _price(card: ModelCard) -> Finding:
    if card.usd_in is None or card.usd_out is None:
        return Finding("model", "price", "unknown: a cap on money is refused", "note", 'set "prices" in your settings')
    by = source(card, "price")
    return Finding("model", "price", f"{card.usd_in:g} USD in, {card.usd_out:g} out, for a million tokens ({by})")


# ── repository, settings ─────────────────────────────────────────────────────────────────────────────────────


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


def _trouble(section: str, label: str, problem: TeamwrightError) -> Finding:
    facts = "; ".join(f"{name} {value}".strip() for name, value in problem.looked_at if name != "found")
    value = problem.what + (f" ({facts})" if facts else "")
    return Finding(section, label, value, "problem", problem.do[0] if problem.do else "")
