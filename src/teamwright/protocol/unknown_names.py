"""Advice and errors for names that are not known: one text for each fault, with the most similar known name.

Depends on ids and errors. The lookup of names is left to `session.lookup` and to the stores.
"""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.protocol.errors import TeamwrightError, UnknownMember
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, nearest

MAX_LISTED = 8
"""Maximum number of known names in an error."""


def did_you_mean(word: str, known: Iterable[str], otherwise: Iterable[str] = ()) -> list[str]:
    """Return the advice for a name that is not known: the most similar known name, else `otherwise`."""
    close = nearest(word, known)
    return [f"did you mean {close}?"] if close else list(otherwise)


def unknown_member(
    name: str,
    members: Iterable[str],
    where: str = "the team",
    *,
    note: str = "nothing was done",
    more: Iterable[tuple[str, str]] = (),
    do: Iterable[str] | None = None,
) -> UnknownMember:
    """Return the error for a name that no member of the team has.

    `members` are the names that the team has; the lead is shown by its alias. `where` names the team. `more` are
    further values that were checked, and `do` replaces the advice.
    """
    names = [LEAD_ALIAS if one == LEAD else one for one in members]
    return UnknownMember(
        "unknown-member",
        f"'{name[:80]}' is not in {where}",
        looked_at=[("members", ", ".join(names) or "none"), *more],
        do=did_you_mean(name, names) if do is None else do,
        note=note,
    )


def ended_member(
    name: str, members: Iterable[str], *, note: str = "nothing was done", do: Iterable[str] = (), crashed: bool = False
) -> UnknownMember:
    """Return the error for a member that no longer runs. `members` are those that do."""
    names = [LEAD_ALIAS if one == LEAD else one for one in members]
    return UnknownMember(
        "unknown-member",
        f"'{name[:80]}' has {'crashed' if crashed else 'ended'}",
        looked_at=[("running", ", ".join(names) or "none")],
        do=do,
        note=note,
    )


def unknown_team(name: str, teams: Iterable[str], place: str, do: Iterable[str] | None = None) -> TeamwrightError:
    """Return the error for a name that no team has. `place` is the directory of the teams; `do` replaces the advice."""
    names = list(teams)
    name_list = ", ".join(names[:MAX_LISTED]) + (
        f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    )
    return TeamwrightError(
        "unknown-team",
        f"there is no team '{name[:80]}'",
        looked_at=[("looked in", place), ("teams", name_list or "none")],
        do=did_you_mean(name, names, ["teamwright teams"]) if do is None else do,
        note="nothing was done",
    )
