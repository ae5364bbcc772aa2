"""The permission rules of a directory: mode, directories and rules with the file of each, as in a new run.

Depends on settings and trust. The verdict on a single call is in `views/permission_check.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.agent.reminders import MODE_MEANINGS
from teamwright.config.settings.merge import MODE, load_settings, reads_other_product
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.trust.trust_store import TrustStore
from teamwright.permissions.verdict import Mode
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home

DEFAULT = "the default"
_WIDENING = ("permissions.allow", "permissions.additionalDirectories", MODE)


@dataclass(frozen=True, slots=True)
class RuleView:
    """One rule as it is written, and its file or flag."""

    verdict: str
    rule: str
    source: str


@dataclass(frozen=True, slots=True)
class RulesView:
    """The rules in force, in the order of precedence.

    `untrusted` are entries of the repository that have no effect before a person trusts them; `warnings` name settings
    that were left out.
    """

    mode: str
    meaning: str
    mode_from: str
    directories: tuple[str, ...]
    rules: tuple[RuleView, ...]
    untrusted: tuple[RuleView, ...]
    warnings: tuple[str, ...]
    settings: str
    """The user's own settings file, where a rule can be added."""


def rules_view(home: Home, cwd: Path, settings_file: Path | None = None) -> RulesView:
    """Return the rules of a run in this directory. Raises CannotStart for settings that cannot be read."""
    flags = SettingFlags(settings_file=settings_file)
    trust = TrustStore.load(home).verdict(Path(os.path.realpath(cwd)), compat=reads_other_product(home, flags))
    settings = load_settings(home, cwd, flags, trust)
    mode = Mode.DELEGATE if settings.delegates else settings.mode
    order = ("deny", "ask", "allow")
    rules = sorted(settings.rules, key=lambda rule: order.index(str(rule.verdict)))
    return RulesView(
        mode=str(mode),
        meaning=MODE_MEANINGS[mode],
        mode_from=settings.origins.get(MODE, DEFAULT),
        directories=tuple(dict.fromkeys(map(str, (os.path.realpath(cwd), *settings.directories)))),
        rules=tuple(RuleView(str(rule.verdict), rule.text, rule.source) for rule in rules),
        untrusted=tuple(
            RuleView(entry.kind.removeprefix("permissions."), entry.name or entry.summary, entry.file)
            for entry in trust.pending
            if entry.kind in _WIDENING
        ),
        warnings=settings.warnings,
        settings=str(home.settings),
    )
