"""The startup of a session's shell: which shell, where its snapshot lies, and who is told when it fails.

Nothing is read here: that is for the first command. The startup sees the user's own environment, without credentials
and without the variables of settings, so that no repository has a say in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import Home
from teamwright.storage.processes.records import ProcessRecords
from teamwright.tools.shell.bash import BashSettings, environment_without
from teamwright.tools.shell.startup import Startup
from teamwright.tools.shell.which import WITH_STARTUP, user_shell


def startup_of(
    home: Home,
    session: str,
    settings: BashSettings,
    env: Mapping[str, str],
    emit: Emit,
    records: ProcessRecords | None = None,
) -> Startup:
    """The startup for all commands of a session whose environment is `env`.

    Raises CannotStart (`bad-settings`) for a shell that is none.
    """
    return Startup(
        user_shell(settings.shell, env),
        snapshot_file(home, session),
        lambda: environment_without(settings.hidden, env),
        lambda text: emit(Notice(member=LEAD, text=text, level="warning")),
        within_s=settings.startup_s if settings.startup else None,
        records=records,
    )


def snapshot_file(home: Home, session: str) -> Path:
    """Where the snapshot of a session lies."""
    return home.shell_snapshots / f"{session}.sh"


def shown_shell(settings: BashSettings, env: Mapping[str, str]) -> str:
    """The shell of commands and why it is this one, for people. Raises CannotStart (`bad-settings`)."""
    shell = user_shell(settings.shell, env)
    if shell.kind not in WITH_STARTUP:
        return f"{shell.path}: {shell.why}; its startup files are not read"
    if not settings.startup:
        return f"{shell.path}: {shell.why}; bash.startup is off, so its startup files are not read"
    return f"{shell.path}: {shell.why}; its functions, aliases and PATH are read at the first command of a session"
