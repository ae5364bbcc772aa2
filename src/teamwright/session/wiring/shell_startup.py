"""The startup of a session's shell: its program, its snapshot, and the notice of a failure.

Nothing is read before the first command. The startup gets the user's own environment, without credentials and without
the variables of settings, so that no repository can change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from teamwright.processes.process_records import ProcessRecords
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import Home
from teamwright.tools.shell.bash_settings import BashSettings, remove_variables
from teamwright.tools.shell.startup import STARTUP_SHELLS, ShellStartup, user_shell


def make_shell_startup(
    home: Home,
    session: str,
    settings: BashSettings,
    env: Mapping[str, str],
    emit: Emit,
    records: ProcessRecords | None = None,
) -> ShellStartup:
    """Create the startup for all commands of a session whose environment is `env`.

    Raises CannotStart (`bad-settings`) for an invalid shell.
    """
    return ShellStartup(
        user_shell(settings.shell, env),
        snapshot_file(home, session),
        lambda: remove_variables(settings.hidden, env),
        lambda text: emit(Notice(member=LEAD, text=text, level="warning")),
        timeout_s=settings.startup_s if settings.startup else None,
        records=records,
    )


def snapshot_file(home: Home, session: str) -> Path:
    """Return the path of a session's snapshot."""
    return home.shell_snapshots / f"{session}.sh"


def describe_shell(settings: BashSettings, env: Mapping[str, str]) -> str:
    """Return the shell of commands and the reason, for people. Raises CannotStart (`bad-settings`)."""
    shell = user_shell(settings.shell, env)
    if shell.kind not in STARTUP_SHELLS:
        return f"{shell.path}: {shell.reason}; its startup files are not read"
    if not settings.startup:
        return f"{shell.path}: {shell.reason}; bash.startup is off, so its startup files are not read"
    return f"{shell.path}: {shell.reason}; its functions, aliases and PATH are read at the first command of a session"
