"""What is checked: a directory under the trust that is on file, with what flags add. Everything is read once.

Raises for the file of trust alone: what is wrong with any other file is an asset of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from teamwright.config.plugins import Plugin, plugin_at
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings.settings_survey import SettingsSurvey, reads_compat_files, survey_settings
from teamwright.config.trust.trust_store import TrustState, TrustStore
from teamwright.protocol.errors import UsageError
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home
from teamwright.tools.shell.bash import remove_variables


@dataclass(frozen=True, slots=True)
class AssetQuery:
    """Where to look. `env` is the environment; `agents` and `plugins` as flags gave them."""

    home: Home
    cwd: Path
    env: Mapping[str, str]
    settings_file: Path | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugins: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class CheckSubject:
    """What was asked, with the settings and the trust that a run would have. `cwd` is real."""

    asked: AssetQuery
    cwd: Path
    trust: TrustState
    compat: bool
    survey: SettingsSurvey
    plugins: Sequence[Plugin] = ()
    bad_plugins: Sequence[tuple[Path, UsageError]] = ()

    @property
    def variables(self) -> dict[str, str]:
        """What entries of MCP servers may name."""
        return {**self.asked.env, **self.survey.settings.env}

    @property
    def withheld(self) -> frozenset[str]:
        """Variables that entries of others do not get."""
        return frozenset(self.asked.env) - frozenset(remove_variables(self.survey.settings.bash.hidden, self.asked.env))

    @property
    def root(self) -> Path:
        """The top of the repository."""
        return self.trust.root


def load_subject(asked: AssetQuery) -> CheckSubject:
    """Read trust and settings. Raises CannotStart for the file of trust, and for the one that `--settings` names."""
    flags = SettingFlags(settings_file=asked.settings_file)
    cwd = Path(os.path.realpath(asked.cwd))
    compat = reads_compat_files(asked.home, flags)
    trust = TrustStore.load(asked.home).verdict(cwd, compat=compat)
    plugins: list[Plugin] = []
    bad: list[tuple[Path, UsageError]] = []
    for path in asked.plugins:
        try:
            plugins.append(plugin_at(path))
        except UsageError as problem:
            bad.append((path, problem))
    return CheckSubject(asked, cwd, trust, compat, survey_settings(asked.home, cwd, flags, trust), plugins, bad)
