"""The state of a member that waits for an answer of a person."""

from __future__ import annotations

from collections.abc import Callable

from teamwright.teams.team import SessionTeam


def blocked_callback(team: SessionTeam, member: str) -> Callable[[str | None], None]:
    """Return the callback that marks a member as blocked on an answer."""

    def waiting(on: str | None) -> None:
        teammate = team.find_in_process(member)
        if teammate is None:
            return
        if on is None:
            teammate.note_answered()
        else:
            teammate.note_waiting(on)

    return waiting
