"""How a team behaves: its settings, frozen. Refuses to know where they were written."""

from __future__ import annotations

from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class TeamSettings:
    """How a team behaves; all are settings."""

    shutdown_objection_s: float = 60.0
    """How long a member may take to answer a shutdown request before the runtime ends it."""

    cancel_grace_s: float = 5.0
    """How long a cancelled turn may take to wind up."""

    shutdown_timeout_s: float = 10.0
    """How long leaving a team waits for members that are winding up."""

    dedupe_names: bool = False
    """A live name becomes `name-2` instead of being refused."""

    ping_pong: int = 20
    """Messages between two members without a task change before they no longer wake each other."""
