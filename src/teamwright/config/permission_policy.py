"""The permission policy of a run, built from settings: its scope and its private paths."""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.config.settings.settings import Settings
from teamwright.config.settings_runs import NOTHING_FURTHER, FurtherPrograms, files_run_by
from teamwright.config.trust_store import TrustState
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.run_files import merge_run_files
from teamwright.sandbox.temporary_files import TemporaryFiles
from teamwright.storage.paths import Home


def private_paths(home: Home) -> tuple[Path, ...]:
    """Return the paths that file tools may not touch by default: the state root, and the other product's login."""
    login = Path(os.path.expanduser("~/.claude/.credentials.json"))
    shared = [home.shared / name for name in ("teams", "tasks", "projects", ".credentials.json")]
    found = [home.own, *(shared if home.is_foreign else ()), login]
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in found))


def make_policy(
    settings: Settings,
    home: Home,
    cwd: Path,
    trust: TrustState,
    own: tuple[Path, ...] = (),
    temporary: TemporaryFiles | None = None,
    *,
    further: FurtherPrograms = NOTHING_FURTHER,
) -> Policy:
    """Return the policy of a run in this directory. `own` are directories of the state root that its agents may read.

    `temporary` are the session's temporary files, `further` what agent types and plugins run.
    """
    trusted = [entry.runs for entry in trust.entries if trust.allows(entry)]
    run = merge_run_files([*trusted, files_run_by(settings, trust.root, further)])
    scope = PermissionScope(
        directories=tuple(dict.fromkeys((Path(os.path.realpath(cwd)), *settings.directories))),
        private=private_paths(home),
        own=tuple(Path(os.path.realpath(path)) for path in own),
        trusted_git=trust.trusted_git,
        base=trust.root,
        settings=home.settings,
        hook_files=frozenset(map(str, run.files | run.settings | run.links)),
        hook_trees=frozenset(map(str, run.trees)),
        temporary=temporary,
    )
    return Policy(settings.mode, settings.rules, scope, is_delegating=settings.delegates)
