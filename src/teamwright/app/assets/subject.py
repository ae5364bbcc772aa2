"""What is checked: a directory under the trust that is on file, with what flags add. Everything is read once.

Raises for the file of trust alone: what is wrong with any other file is an asset of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from teamwright.app.agents.plugins import Plugin, plugin_at
from teamwright.app.settings.model import Flags
from teamwright.app.settings.surveying import Survey, compat_on, survey_settings
from teamwright.app.trust.store import Trust, TrustState
from teamwright.protocol.errors import UsageError
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home
from teamwright.tools.shell.bash import environment_without


@dataclass(frozen=True, slots=True)
class Asked:
    """Where to look. `env` is the environment; `agents` and `plugins` as flags gave them."""

    home: Home
    cwd: Path
    env: Mapping[str, str]
    settings_file: Path | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugins: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What was asked, with the settings and the trust that a run would have. `cwd` is real."""

    asked: Asked
    cwd: Path
    trust: TrustState
    compat: bool
    survey: Survey
    plugins: Sequence[Plugin] = ()
    bad_plugins: Sequence[tuple[Path, UsageError]] = ()

    @property
    def variables(self) -> dict[str, str]:
        """What entries of MCP servers may name."""
        return {**self.asked.env, **self.survey.settings.env}

    @property
    def withheld(self) -> frozenset[str]:
        """Variables that entries of others do not get."""
        return frozenset(self.asked.env) - frozenset(
            environment_without(self.survey.settings.bash.hidden, self.asked.env)
        )

    @property
    def root(self) -> Path:
        """The top of the repository."""
        return self.trust.root


def subject_of(asked: Asked) -> Subject:
    """Read trust and settings. Raises CannotStart for the file of trust, and for the one that `--settings` names."""
    flags = Flags(settings_file=asked.settings_file)
    cwd = Path(os.path.realpath(asked.cwd))
    compat = compat_on(asked.home, flags)
    trust = Trust.load(asked.home).verdict(cwd, compat=compat)
    plugins: list[Plugin] = []
    bad: list[tuple[Path, UsageError]] = []
    for path in asked.plugins:
        try:
            plugins.append(plugin_at(path))
        except UsageError as problem:
            bad.append((path, problem))
    return Subject(asked, cwd, trust, compat, survey_settings(asked.home, cwd, flags, trust), plugins, bad)
