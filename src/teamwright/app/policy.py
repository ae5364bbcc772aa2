"""From settings to the policy of a run: its scope, and what is private in it.

Assembly only: decides nothing by itself.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.app.settings.model import Settings
from teamwright.app.trust.store import TrustState
from teamwright.app.trust.survey import files_run_by
from teamwright.permissions.book import Scope
from teamwright.permissions.decide import Policy
from teamwright.storage.paths import Home


def private_paths(home: Home) -> tuple[Path, ...]:
    """What file tools may not touch by default: the state root, and the other product's login."""
    login = Path(os.path.expanduser("~/.claude/.credentials.json"))
    shared = [home.shared / name for name in ("teams", "tasks", "projects", ".credentials.json")]
    found = [home.ours, *(shared if home.foreign else ()), login]
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in found))


def policy_of(settings: Settings, home: Home, cwd: Path, trust: TrustState, own: tuple[Path, ...] = ()) -> Policy:
    """The policy of a run in this directory. `own` are directories of the state root that its agents may read."""
    scope = Scope(
        directories=tuple(dict.fromkeys((Path(os.path.realpath(cwd)), *settings.directories))),
        private=private_paths(home),
        own=tuple(Path(os.path.realpath(path)) for path in own),
        trusted_git=trust.trusted_git,
        base=trust.root,
        settings=home.settings,
        run=files_run_by(settings.hooks, trust.root),
    )
    made = Policy(settings.mode, settings.rules, scope)
    made.delegating = settings.delegates
    return made
