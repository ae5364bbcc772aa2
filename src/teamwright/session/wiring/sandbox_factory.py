"""The construction of a session's sandbox from its settings and its paths."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from teamwright.config.files_executed_by_settings import find_further_programs, programs_outside
from teamwright.config.settings.merge import private_paths
from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.sandbox.command_policy import SandboxPaths
from teamwright.sandbox.policy import is_inside
from teamwright.sandbox.sandbox import Sandbox
from teamwright.session.preparation import SessionContext
from teamwright.session.wiring.shell_startup import snapshot_file
from teamwright.storage.files import write_atomic
from teamwright.storage.paths import Home

WARNING_FILE = "sandbox-warning"
"""The file of a state root with the newest warning that a person saw."""

WARN_AGAIN_S = 86_400.0


def make_sandbox(context: SessionContext, emit: Emit) -> Sandbox:
    """Create the sandbox of this process. Raises CannotStart (`no-sandbox`) when one is required and none works."""
    home = context.home
    directory = home.session(context.cwd, context.id)
    place = SandboxPaths(
        home=os.path.realpath(os.path.expanduser(context.env.get("HOME") or "~")),
        private=tuple(str(path) for path in private_paths(home)),
        visible=(str(directory / "output"), str(snapshot_file(home, context.id)), *_plugin_directories(context)),
        temporary=str(directory / "tmp"),
        env=context.env,
        run_outside=programs_outside(
            context.settings,
            context.trust.root,
            find_further_programs(context.places, context.home, context.trust.root),
        ),
    )
    sandbox = Sandbox(context.settings.sandbox, place, lambda text: warn_once_a_day(home, emit, text))
    sandbox.require()
    return sandbox


def warn_once_a_day(home: Home, emit: Emit, text: str) -> None:
    """Emit a warning of the sandbox, and as information when this state root showed the same one in the last day."""
    file = home.own / WARNING_FILE
    is_known = False
    with suppress(OSError):
        is_known = file.read_text("utf-8") == text and 0 <= time.time() - file.stat().st_mtime < WARN_AGAIN_S
    emit(Notice(member=LEAD, text=text, level="info" if is_known else "warning"))
    if not is_known:
        with suppress(StorageError, OSError):  # a home that cannot be written is warned again
            write_atomic(file, text.encode())


def _plugin_directories(context: SessionContext) -> list[str]:
    """Return the directories of plugins, whose scripts commands run. One in the project is visible without that."""
    paths = (os.path.realpath(plugin.path) for plugin in context.places.plugins)
    return [path for path in paths if not is_inside(path, os.path.realpath(context.cwd))]
