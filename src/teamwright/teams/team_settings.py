"""The settings of a team, frozen."""

from __future__ import annotations

from msgspec import Struct

from teamwright.protocol.review import Reviewer


class TeamSettings(Struct, frozen=True):
    """The settings of a team."""

    shutdown_objection_s: float = 60.0
    """Seconds that a member may take to answer a shutdown request before the runtime ends it."""

    cancel_grace_s: float = 5.0
    """Seconds that a cancelled turn may take to end."""

    shutdown_timeout_s: float = 10.0
    """Seconds that leaving a team waits for ending members."""

    dedupe_names: bool = False
    """A live name becomes `name-2` instead of being refused."""

    review: Reviewer | None = None
    """The least review of every new task."""

    ping_pong: int = 20
    """Messages between two members without a task change before they no longer wake each other."""
