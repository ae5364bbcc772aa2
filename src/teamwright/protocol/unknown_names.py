"""Advice and errors for names that are not known: one text for each fault, with the most similar known name. Says
which unknown keys of a file are only labels.

Depends on ids and errors. The lookup of names is left to `saved` and to the stores.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from teamwright.protocol.errors import InvalidName, TeamwrightError, UnknownMember
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, MemberName, nearest, parse_recipient

MAX_LISTED = 8
"""Maximum number of known names in an error."""

_LABELS = frozenset({"$schema", "$comment", "comment", "comments", "description", "id", "name"})


_ALL = frozenset({"all", "everyone", "everybody", "team", "members", "teammates", "broadcast", "any", "anyone"})
"""Words that models write for all members."""

_LEAD_WORDS = frozenset({"leader", "teamlead", "team-leader", "main", "coordinator", "manager", "parent"})
"""Words that models write for the lead."""

TO_ALL = "write '*' for all members"
"""The advice for a name that means all of them."""


def is_label(key: str) -> bool:
    """Return True for a key of settings, hooks or MCP servers that is written for people and has no effect anywhere."""
    return key in _LABELS or key.startswith(("//", "_"))


def known_name(
    text: str, teams: Collection[str] | None, members: Iterable[str], where: str, note: str = "nothing was done"
) -> MemberName:
    """Return the text of a `to` field as a member's name, as `parse_recipient` does.

    Raises UnknownMember with the members and the nearest name for a text that can be no name, or names another team.
    """
    try:
        return parse_recipient(text, teams)
    except (InvalidName, UnknownMember) as problem:
        if isinstance(problem, InvalidName) or text.strip().startswith("@"):
            raise unknown_member(text.strip(), members, where, note=note) from None
        raise unknown_member(
            text.strip(), members, where, what=problem.what, more=problem.looked_at, note=note
        ) from None


def name_advice(text: str, members: Iterable[str], otherwise: Iterable[str] = ()) -> list[str]:
    """Return the advice for a name that no member has, with quotes, brackets and the team left out.

    It names the nearest member, and `*` for a text that means all members or several.
    """
    names = [LEAD_ALIAS if one == LEAD else one for one in members]
    lower = {name.lower(): name for name in names}
    words = [word.lower() for word in re.findall(r"[A-Za-z0-9_-]+", text)]
    bare = words[0] if words else ""
    if bare not in lower and {bare, "-".join(words)} & {*_LEAD_WORDS, LEAD}:
        return [f"did you mean {LEAD_ALIAS}?"]
    found = list(dict.fromkeys(lower[word] for word in words if word in lower))
    if len(found) > 1 and "@" not in text:
        return [f"write to {', '.join(found[:-1])} and {found[-1]} one by one", TO_ALL]
    if found:
        return [f"did you mean {found[0]}?"]
    if set(words) & _ALL:
        return [TO_ALL]
    return did_you_mean(bare, names, otherwise)


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
    what: str = "",
) -> UnknownMember:
    """Return the error for a name that no member of the team has.

    `members` are the names that the team has; the lead is shown by its alias. `where` names the team. `more` are
    further values that were checked, `do` replaces the advice and `what` the first words.
    """
    names = [LEAD_ALIAS if one == LEAD else one for one in members]
    return UnknownMember(
        "unknown-member",
        what or f"'{name[:80]}' is not in {where}",
        looked_at=[("members", ", ".join(names) or "none"), *more],
        do=name_advice(name, names) if do is None else do,
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
