"""Who may speak with a person's authority: a person's terminal or program, never a command that an agent runs.

Depends on the marks and records of processes. Leaves to its callers what needs that authority. A refusal is noted for
the session whose agent tried, which logs it as an event.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from teamwright.permissions.verdict import Mode
from teamwright.processes.agent_command import AgentCommand, find_agent_command
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.requests.request_store import REFUSED, RequestStore
from teamwright.storage.doorbell import ring
from teamwright.storage.paths import Home


def require_person(home: Home, does: str, tried: str = "") -> None:
    """Raises UsageError (`not-for-agents`) in a command of an agent. `does` says what only a person does.

    `tried` is what was typed, for the log: without secrets.
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
    """Raises UsageError (`not-for-agents`) where a command of an agent starts a session in bypassPermissions."""
    if mode is Mode.BYPASS:
        require_person(home, f"starts a session in {mode}")


def agent_command(home: Home) -> AgentCommand | None:
    """Return what is known of this process as a command of an agent; None when a person started it."""
    return find_agent_command(_directories(home))


def _note(found: AgentCommand, what: str) -> None:
    """Note in the session of that agent what its command tried. A disk that refuses costs the note."""
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
    """The directories of all sessions, and of all members' own processes, that have records of processes."""
    for pattern in ("*/*/processes", "*/*/members/*/processes"):
        yield from (path.parent for path in (home.own / "projects").glob(pattern))
