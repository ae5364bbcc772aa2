"""The settings of each package, built from single values with the package's defaults.

Follows the table of fields; a package that validates its values is called. Precedence was decided before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.backends.choice import AUTO, IN_PROCESS, REMOTE_BACKEND, TMUX, is_remote
from teamwright.backends.settings import BackendSettings
from teamwright.backends.terminal_adapter import (
    DETACHED,
    InvalidAdapter,
    TerminalAdapter,
    parse_adapters,
    shipped_adapters,
)
from teamwright.config.external_member_commands import commands_settings
from teamwright.config.settings.setting_fields import fill_settings, plain_fields
from teamwright.config.settings.settings import Settings, parse_notify_settings
from teamwright.config.settings.settings_files import bad_settings
from teamwright.protocol.budget import CAP_NAMES as CAPS
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.sandbox.policy import NetworkAccess, SandboxMode, SandboxSettings

BACKEND, ADAPTERS = "members.backend", "members.adapters"
BACKENDS = (AUTO, IN_PROCESS, TMUX, DETACHED, REMOTE_BACKEND)
"""Backends that need no terminal adapter."""


def parse_backend_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> BackendSettings:
    """Return the backend settings. `origins` names the file or flag of each value.

    Raises CannotStart (`bad-settings`) with file and key, UsageError for a flag.
    """
    adapters = _adapters(values, origins)
    settings = fill_settings(BackendSettings(adapters=adapters), "places", values)
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


_FOR_MODELS = frozenset(
    {
        "model",
        "effort",
        "thinking",
        "context_tokens",
        "max_output_tokens",
        "retries",
        "cache_warmup_s",
        "cache_hour",
        "stall_s",
        "providers",
        "models",
        "prices",
    }
)

RUN_CAPS = ("usd", "tokens", "turns", "minutes")
"""Caps of a headless run that have defaults."""

_PLAIN = ("limits", "team", "bash", "agents", "compact", "web_search")
"""Packages that take their values unchanged."""


def make_sections(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of `Settings` that single values set; `origins` names the file of each.

    Raises CannotStart (`bad-settings`) with file and key for a value that its package refuses.
    """
    usual = Settings()
    check = fill_settings(usual.check, "check", values)
    trees = fill_settings(usual.worktrees, "worktrees", values)
    return {
        **plain_fields(usual, values),
        **{room: fill_settings(getattr(usual, room), room, values) for room in _PLAIN},
        "models": {name: value for name, value in values.items() if name in _FOR_MODELS},
        "run_defaults": Budget.from_json({name: values.get(f"budget.run.{name}") for name in RUN_CAPS}),
        "each": Budget.from_json({name: values.get(f"budget.agent.{name}") for name in CAPS}),
        "sandbox": _sandbox(fill_settings(usual.sandbox, "sandbox", values)),
        "places": parse_backend_settings(values, origins),
        "commands": commands_settings(values, origins),
        "notify": parse_notify_settings(values, origins),
        "check": replace(check, command=check.command.strip()),
        "worktrees": replace(trees, setup=trees.setup.strip(), check=trees.check.strip()),
    }


def _sandbox(settings: SandboxSettings) -> SandboxSettings:
    """Return the settings with the words of files as values."""
    return replace(
        settings,
        mode=SandboxMode(settings.mode),
        network=NetworkAccess(settings.network),
        read=tuple(settings.read),
        write=tuple(settings.write),
    )
