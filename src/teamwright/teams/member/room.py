"""The directory of a member's own process, beside its session's other files: its log, its lease, records of its jobs.

Refuses to know whether there is a process.
"""

from __future__ import annotations

from pathlib import Path

LEASE = "lease"
"""The file in the room that the process holds for life."""


def room_of(transcript: Path) -> Path:
    """The room of the member with this transcript."""
    return transcript.parent.parent / "members" / transcript.stem
