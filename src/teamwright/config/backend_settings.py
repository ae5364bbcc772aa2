"""The settings of backends, from the values of settings files; an error names file and key.

Value types are checked in `settings.setting_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teamwright.config.settings.setting_fields import fill_settings
from teamwright.config.settings.settings_files import bad_settings
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.teams.backends.backend_choice import AUTO, IN_PROCESS, REMOTE_BACKEND, TMUX, is_remote
from teamwright.teams.backends.backend_settings import BackendSettings
from teamwright.teams.backends.terminal_adapter_settings import (
    DETACHED,
    InvalidAdapter,
    TerminalAdapter,
    parse_adapters,
    shipped_adapters,
)

BACKEND, ADAPTERS = "members.backend", "members.adapters"
BACKENDS = (AUTO, IN_PROCESS, TMUX, DETACHED, REMOTE_BACKEND)
"""Backends that need no terminal adapter."""


def parse_backend_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> BackendSettings:
    """Return the backend settings. `origins` names the file or flag of each value.

    Raises CannotStart (`bad-settings`) with file and key, UsageError for a flag.
    """
    adapters = _adapters(values, origins)
    made = fill_settings(BackendSettings(adapters=adapters), "places", values)
    backend = made.backend
    named = (*BACKENDS, *adapters, *shipped_adapters())
    if backend not in named and not is_remote(backend):
        known = [*BACKENDS, *{**shipped_adapters(), **adapters}]
        raise _no_such(origins.get(BACKEND, ""), BACKEND, f"{backend!r} is no backend for members", backend, known)
    return made


def _adapters(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, TerminalAdapter]:
    try:
        return parse_adapters(values.get(ADAPTERS, {}))
    except InvalidAdapter as problem:
        do = f"; {problem.do}" if problem.do else ""
        raise bad_settings(Path(origins[ADAPTERS]), f"{problem.what}{do}", f"{ADAPTERS}.{problem.key}") from None


def _no_such(origin: str, key: str, what: str, said: str, known: list[str]) -> TeamwrightError:
    if not origin.startswith("--"):
        [hint] = did_you_mean(said, known, [f"there are {', '.join(known)}"])
        return bad_settings(Path(origin), f"{what}; {hint}", key)
    return UsageError(
        "usage",
        what,
        looked_at=[("flag", origin), ("backends", ", ".join(known))],
        do=did_you_mean(said, known),
        note="nothing was started",
    )
