"""The sections of a run's settings that single values fill; a package that validates its values is called.

`merge` decides precedence before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from teamwright.backends.choice import AUTO, REMOTE_BACKEND, TMUX, is_remote
from teamwright.backends.settings import BackendSettings
from teamwright.backends.terminal_adapter import (
    DETACHED,
    InvalidAdapter,
    TerminalAdapter,
    parse_adapters,
    shipped_adapters,
)
from teamwright.config.external_member_commands import commands_settings
from teamwright.config.settings.files import bad_settings
from teamwright.config.settings.keys import fill, setting_keys
from teamwright.config.settings.settings import NotifySettings, Settings
from teamwright.models.model_settings import ModelSettings
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.protocol.members import IN_PROCESS
from teamwright.protocol.usage import CAP_NAMES as CAPS
from teamwright.protocol.usage import Budget
from teamwright.sandbox.policy import NetworkAccess, SandboxMode, SandboxSettings

RUN_CAPS = ("usd", "tokens", "turns", "minutes")
"""Caps of a headless run that have defaults."""


def make_sections(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    """Return the settings with the fields that single values set; `origins` names the file of each.

    Raises CannotStart (`bad-settings`) with file and key for a value that its package refuses.
    """
    usual = Settings()
    keys = setting_keys()
    check = fill(usual.check, values)
    trees = fill(usual.worktrees, values)
    return replace(
        fill(usual, values),
        limits=fill(usual.limits, values),
        team=fill(usual.team, values),
        bash=fill(usual.bash, values),
        agents=fill(usual.agents, values),
        compact=fill(usual.compact, values),
        web_search=fill(usual.web_search, values),
        side_calls=fill(usual.side_calls, values),
        models={name: value for name, value in values.items() if keys.section_of(name) is ModelSettings},
        run_defaults=Budget.from_json({name: values.get(f"budget.run.{name}") for name in RUN_CAPS}),
        each=Budget.from_json({name: values.get(f"budget.agent.{name}") for name in CAPS}),
        sandbox=_sandbox(fill(usual.sandbox, values)),
        places=parse_backend_settings(values, origins),
        commands=commands_settings(values, origins),
        notify=parse_notify_settings(values, origins),
        check=replace(check, command=check.command.strip()),
        worktrees=replace(trees, setup=trees.setup.strip(), check=trees.check.strip()),
    )


def _sandbox(settings: SandboxSettings) -> SandboxSettings:
    """Return the settings with enum members and tuples in place of the JSON values."""
    return replace(
        settings,
        mode=SandboxMode(settings.mode),
        network=NetworkAccess(settings.network),
        read=tuple(settings.read),
        write=tuple(settings.write),
    )


WEBHOOK = "notify.webhook"


def parse_notify_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> NotifySettings:
    """Return the settings. Raises CannotStart (`bad-settings`) for a webhook that is no http or https URL."""
    settings = fill(NotifySettings(), values)
    if settings.webhook:
        try:
            parts = urlsplit(settings.webhook)
            is_url = parts.scheme in {"http", "https"} and bool(parts.hostname)
        except ValueError:
            is_url = False
        if not is_url:
            raise bad_settings(Path(origins.get(WEBHOOK, "")), "must be a URL that begins with https://", WEBHOOK)
    return settings


BACKEND, ADAPTERS = "members.backend", "members.adapters"
BACKENDS = (AUTO, IN_PROCESS, TMUX, DETACHED, REMOTE_BACKEND)
"""Backends that need no terminal adapter."""


def parse_backend_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> BackendSettings:
    """Return the backend settings. `origins` names the file or flag of each value.

    Raises CannotStart (`bad-settings`) with file and key, UsageError for a flag.
    """
    adapters = _adapters(values, origins)
    settings = replace(fill(BackendSettings(), values), adapters=adapters)
    backend = settings.backend
    named = (*BACKENDS, *adapters, *shipped_adapters())
    if backend not in named and not is_remote(backend):
        known = [*BACKENDS, *{**shipped_adapters(), **adapters}]
        raise _no_such(origins.get(BACKEND, ""), BACKEND, f"{backend!r} is no backend for members", backend, known)
    return settings


def _adapters(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, TerminalAdapter]:
    try:
        return parse_adapters(values.get(ADAPTERS, {}))
    except InvalidAdapter as problem:
        do = f"; {problem.do}" if problem.do else ""
        raise bad_settings(Path(origins[ADAPTERS]), f"{problem.what}{do}", f"{ADAPTERS}.{problem.key}") from None


def _no_such(origin: str, key: str, what: str, name: str, known: list[str]) -> TeamwrightError:
    if not origin.startswith("--"):
        [hint] = did_you_mean(name, known, [f"there are {', '.join(known)}"])
        return bad_settings(Path(origin), f"{what}; {hint}", key)
    return UsageError(
        "usage",
        what,
        looked_at=[("flag", origin), ("backends", ", ".join(known))],
        do=did_you_mean(name, known),
        note="nothing was started",
    )
