"""The check that a command runs with a person's authority: at a person's terminal or in a program, not in an agent's
command.

Depends on the marks and records of processes. A refusal is recorded for the session of that agent, which logs it as an
event.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.timestamps import now_ms
from teamwright.requests.request_store import REFUSED, RequestStore
from teamwright.storage.doorbell import ring
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.processes.agent_command_detection import AgentCommand


def require_person(home: Home, does: str, tried: str = "") -> None:
    """Raise UsageError (`not-for-agents`) in a command of an agent. `does` names the act that needs a person.

    `tried` is the typed command for the log, without secrets.
    """
    found = agent_command(home)
    if found is None:
        return
    _note(found, f"{does} ({tried})" if tried else does)
    whose = f"{found.member}, call {found.call}" if found.call else found.member
    raise UsageError(
        "not-for-agents",
        f"only a person {does}, and this is a command that an agent runs",
        looked_at=[(found.fact, found.value), *([("agent", whose)] if whose else [])],
        do=[
            "an agent says in its answer what it needs, and why",
            "a person types it in the session's terminal, or in a terminal that no agent has opened",
        ],
        note="nothing was changed",
    )


def require_person_for_mode(home: Home, mode: Mode) -> None:
    """Raise UsageError (`not-for-agents`) where a command of an agent starts a session in bypassPermissions."""
    if mode is Mode.BYPASS:
        require_person(home, f"starts a session in {mode}")


def agent_command(home: Home) -> AgentCommand | None:
    """Return the facts of this process as a command of an agent; None when a person started it."""
    from teamwright.processes.agent_command_detection import find_agent_command

    return find_agent_command(_directories(home))


def _note(found: AgentCommand, what: str) -> None:
    """Record the refused command in the session of its agent. A write error loses only this record."""
    if found.directory is None:
        return
    in_room = found.directory.parent.name == "members"
    session = found.directory.parent.parent if in_room else found.directory
    who = f"{found.member} ({found.call})" if found.call else found.member or "an agent"
    text = f"a command of {who}, process {os.getpid()}, was refused: only a person {what}"
    with contextlib.suppress(TeamwrightError, OSError):
        RequestStore(session / "requests").record_late_answer(
            f"refused-{now_ms()}-{secrets.token_hex(4)}", {REFUSED: text}
        )
        ring(session / "bells" / "team-lead")


def _directories(home: Home) -> Iterator[Path]:
    """Return the directories of all sessions, and of all members' own processes, that have records of processes."""
    for pattern in ("*/*/processes", "*/*/members/*/processes"):
        yield from (path.parent for path in (home.own / "projects").glob(pattern))
