"""The settings of each package, built from single values with the package's defaults.

Follows the table of fields; a package that validates its values is called. Precedence was decided before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from teamwright.config.backend_settings import parse_backend_settings
from teamwright.config.external_commands import commands_settings
from teamwright.config.notify_settings import parse_notify_settings
from teamwright.config.settings.setting_fields import fill_settings, plain_fields
from teamwright.config.settings.settings import Settings
from teamwright.protocol.budget import CAP_NAMES as CAPS
from teamwright.protocol.budget import Budget
from teamwright.sandbox.policy import NetworkAccess, SandboxMode, SandboxSettings

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


def _sandbox(said: SandboxSettings) -> SandboxSettings:
    """Return the settings with the words of files as values."""
    return replace(
        said,
        mode=SandboxMode(said.mode),
        network=NetworkAccess(said.network),
        read=tuple(said.read),
        write=tuple(said.write),
    )
