"""Settings of task checks."""

from __future__ import annotations

from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The check of all tasks and its time limits."""

    command: str = ""
    """A command that must succeed before any task is completed; empty for none."""
    timeout_s: float = 600.0
    """How long a check may take."""
    grace_s: float = 2.0
    """Seconds that a check may take to exit after its timeout."""
