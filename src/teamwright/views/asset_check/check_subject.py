"""The subject of an asset check: a directory with its settings and saved trust, and the additions of flags.

Only a damaged trust file raises an error; a fault in another file becomes an asset.
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
    """The directory to check. `env` is the environment; `agents` and `plugins` are values of flags."""

    home: Home
    cwd: Path
    env: Mapping[str, str]
    settings_file: Path | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugins: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class CheckSubject:
    """The query with the settings and the trust that a run would have. `cwd` is the real path."""

    asked: AssetQuery
    cwd: Path
    trust: TrustState
    compat: bool
    survey: SettingsSurvey
    plugins: Sequence[Plugin] = ()
    bad_plugins: Sequence[tuple[Path, UsageError]] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The variables that entries of MCP servers may use."""
        return {**self.asked.env, **self.survey.settings.env}

    @property
    def withheld(self) -> frozenset[str]:
        """The variables that are withheld from entries of others."""
        return frozenset(self.asked.env) - frozenset(remove_variables(self.survey.settings.bash.hidden, self.asked.env))

    @property
    def root(self) -> Path:
        """The top of the repository."""
        return self.trust.root


def load_subject(asked: AssetQuery) -> CheckSubject:
    """Load trust and settings. Raises CannotStart for the trust file and for the file that `--settings` names."""
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
