"""Ids, names and times: created and validated here, trusted everywhere else.

One validator for each kind of name, used at every entry point, so that no name leaves its directory and no two names
share one file. Formats of ids that other programs read are as observed in the system we interoperate with. Names that
are not known get one text for each fault, with the most similar known name.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import unicodedata
import uuid
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NewType

from teamwright.protocol.errors import InvalidName, TeamRefused, TeamwrightError, UnknownMember

MemberName = NewType("MemberName", str)
"""The name of a member: `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`, unique in its team without regard to case."""

AgentId = NewType("AgentId", str)
"""`name@team`; parsed at the first `@`, because a team's name may contain one."""

TeamName = NewType("TeamName", str)
"""Any printable text of 1 to 100 characters; on disk it is `team_dir(name)`."""

TaskId = NewType("TaskId", str)
"""A decimal number without leading zeros, kept as text as on disk."""

SessionId = NewType("SessionId", str)
"""A UUID, also for an id given with `--session-id`."""

LEAD = MemberName("team-lead")
LEAD_ALIAS = "lead"
RESERVED = frozenset({"team-lead", "lead", "system", "user", "task-list"})
"""Names that no member may take: the lead, its alias and the pseudo-senders of mail."""

COLORS = ("blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red")
"""Member colours in the order of joining; the lead has none on disk."""

_MEMBER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TASK = re.compile(r"[1-9][0-9]{0,9}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(1, 10))})


def display_name(name: str) -> str:
    """Return a member's name as people and models read it: the lead's is its alias."""
    return LEAD_ALIAS if name == LEAD else name


def member_name(text: str) -> MemberName:
    """Return the text as the name of a new member. Raises InvalidName with the reason."""
    if not _MEMBER.fullmatch(text):
        raise InvalidName(
            "bad-name",
            f"{text[:80]!r} cannot be a member's name",
            looked_at=[("rule", "letters, digits, _ and -; starts with a letter or digit; at most 64")],
            do=[f"write {near}"] if (near := _similar_name(text)) else (),
            note="nothing was created",
        )
    if text.lower() in RESERVED or text.lower() in _DEVICES:
        raise InvalidName(
            "bad-name",
            f'"{text}" is a reserved name',
            looked_at=[("reserved", f"{', '.join(sorted(RESERVED))}, and devices of Windows: con, nul, com1, …")],
            do=[f"write {text}-1, or another name"],
            note="nothing was created",
        )
    return MemberName(text)


def _similar_name(text: str) -> str:
    """Return a possible name that is similar to the text: letters without accents, `-` for other characters."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    near = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-_")[:64]
    return "" if near.lower() in RESERVED or near.lower() in _DEVICES else near


def parse_recipient(text: str, teams: Collection[str] | None) -> MemberName:
    """Return the text of a `to` field as a member's name: an agent id loses its team, the alias becomes the lead.

    `teams` are the names of the team in which the member is looked up; None: the caller checks the team. The roster
    decides whether the member exists. Raises InvalidName for text that can never be a name, UnknownMember for an id of
    another team.
    """
    name, _, team = text.strip().partition("@")
    if team and teams is not None and team.strip().casefold() not in {one.casefold() for one in teams}:
        known = next((one for one in teams if one), "")
        raise UnknownMember(
            "unknown-member",
            f"'{text.strip()[:80]}' names a member of another team",
            looked_at=[("this team", known or "none")],
            do=[f"write '{name[:64]}' for the member of this team"],
            note="nothing was done",
        )
    if name.lower() in {LEAD_ALIAS, LEAD}:
        return LEAD
    if not _MEMBER.fullmatch(name):
        raise InvalidName("bad-name", f"{text[:80]!r} cannot be a member's name", note="nothing was sent")
    return MemberName(name)


def team_name(text: str) -> TeamName:
    """Return the text as a team's name. Raises InvalidName for empty, over-long or unprintable text."""
    name = unicodedata.normalize("NFC", text.strip())
    if not name or len(name) > 100 or not name.isprintable():
        raise InvalidName(
            "bad-name",
            f"{text[:120]!r} cannot be a team's name",
            looked_at=[("rule", "printable text of 1 to 100 characters")],
            note="nothing was created",
        )
    return TeamName(name)


def team_dir(name: str) -> str:
    """Return the directory name of a team: all characters but ASCII letters and digits become `-`, lower case (as
    observed).

    The format is lossy; the caller distinguishes two names with one directory (`-2`, `-3`).
    """
    return re.sub(r"[^a-zA-Z0-9]", "-", name).lower()


def directory_name(text: str) -> str:
    """Return a text from outside (a team directory, a session) as one component of a path. Raises InvalidName.

    Refused: an empty text, a leading dash or dot, one of `/\\:*?"<>|`, unprintable characters, over 200 characters,
    names of devices on other systems.
    """
    bad = not text or len(text) > 200 or text[0] in ".-" or not text.isprintable() or set(text) & set('/\\:*?"<>|\0')
    if bad or text.lower().split(".")[0] in _DEVICES:
        raise InvalidName("bad-name", f"{text[:80]!r} cannot be a name here", note="nothing was touched")
    return text


_NOT_IN_STEMS = re.compile(r"[^A-Za-z0-9_-]")


@lru_cache(4_096)
def inbox_stem(name: str) -> str:
    """Return the file stem of a member's inbox: all characters but `A-Za-z0-9_-` become `-`, case kept (as
    observed).
    """
    return _NOT_IN_STEMS.sub("-", name)


def task_id(text: str) -> TaskId:
    """Return the text as a task's number; `#3` and blanks are accepted. Raises InvalidName."""
    number = str(text).strip().removeprefix("#")
    if not _TASK.fullmatch(number):
        raise InvalidName("bad-name", f"{str(text)[:40]!r} is not a task's number", do=["TaskList shows the numbers"])
    return TaskId(number)


def agent_id(name: str, team: str) -> AgentId:
    """Return the id of a member: `name@team`."""
    return AgentId(f"{name}@{team}")


def parse_agent_id(text: str) -> tuple[str, str]:
    """Return name and team of `name@team`, cut at the first `@`; the team is empty when there is none."""
    name, _, team = text.partition("@")
    return name, team


def session_id(text: str | None = None) -> SessionId:
    """Return a new session id, or the given one after a check. Raises InvalidName."""
    if text is None:
        return SessionId(str(uuid.uuid4()))
    if not _UUID.fullmatch(text):
        raise InvalidName("bad-name", f"{text[:80]!r} is not a session id (a UUID is expected)")
    return SessionId(text.lower())


def session_list_name(session: str) -> str:
    """Return the directory of a session's own task list, which is also the name of its implicit team."""
    return f"session-{session[:8]}"


def moved_directory_advice(session: str) -> tuple[str, ...]:
    """Return what to do about a session whose directory is gone: perhaps it was moved or renamed."""
    team = session_list_name(session)
    return (
        f"in its new place: teamwright worktrees repair, then teamwright teams adopt {team}",
        "move it back, then this command again",
    )


def is_uuid(text: str) -> bool:
    """Return True for the text of a UUID."""
    return _UUID.fullmatch(text) is not None


def message_id() -> str:
    """Return a new message id: a UUID, never derived from content."""
    digits = os.urandom(16).hex()  # uuid.uuid4() costs more than writing the first byte of the message
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


_KEYED = uuid.UUID("5f3c1a52-8c0e-4f0e-9a7b-6c2d1f0b7e41")
"""The namespace of keyed ids; any fixed value works."""


def keyed_id(*key: object) -> str:
    """Return the id of an action that happens once under this key: a UUID, the same for the same key.

    The key names the place of the action (a conversation, a line of it, a call), never its content.
    """
    return str(uuid.uuid5(_KEYED, "/".join(str(part) for part in key)))


def run_id() -> str:
    """Return a new id of a sub-agent: `a` and 6 hex digits (as observed)."""
    return "a" + secrets.token_hex(3)


def job_id() -> str:
    """Return a new id of a background command: `b` and 6 hex digits (as observed)."""
    return "b" + secrets.token_hex(3)


def shutdown_id(name: str, at_ms: int | None = None) -> str:
    """Return `shutdown-<ms>@<name>` (as observed)."""
    return f"shutdown-{now_ms() if at_ms is None else at_ms}@{name}"


def plan_id(name: str, team: str, at_ms: int | None = None) -> str:
    """Return `plan_approval-<ms>@<name>@<team>` (as observed)."""
    return f"plan_approval-{now_ms() if at_ms is None else at_ms}@{name}@{team}"


def request_id(kind: str, at_ms: int | None = None) -> str:
    """Return `<kind>-<ms>-<7 of a-z0-9>`: the id of a request that is neither a shutdown nor a plan."""
    tail = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(7))
    return f"{kind}-{now_ms() if at_ms is None else at_ms}-{tail}"


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return int(time.time() * 1000)


def iso_time(ms: int | None = None) -> str:
    """Return `2026-11-20T12:34:56.789Z` for a time in milliseconds (default: now)."""
    seconds, rest = divmod(now_ms() if ms is None else ms, 1000)
    return f"{_iso_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=4)
def _iso_second(seconds: int) -> str:
    """Return the text of one second; cached, because many entries and lines have times in the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


def parse_iso_ms(text: str) -> int | None:
    """Return the milliseconds since 1970 of an ISO 8601 time; None for any other text."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


MAX_LISTED = 8
"""Maximum number of known names in an error."""


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
    names = list(map(display_name, members))
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
    names = list(map(display_name, members))
    return UnknownMember(
        "unknown-member",
        f"'{name[:80]}' has {'crashed' if crashed else 'ended'}",
        looked_at=[("running", ", ".join(names) or "none")],
        do=do,
        note=note,
    )


def lead_stop_error(do: Iterable[str]) -> TeamRefused:
    """Return the error for a stop of the lead. `do` says what ends the lead."""
    return TeamRefused("team-refused", "the lead ends with its session", do=do, note="nothing was stopped")


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


_MEANS_ALL = frozenset({"all", "everyone", "everybody", "team", "members", "teammates", "broadcast", "any", "anyone"})
"""Words that models write for all members."""

_LEAD_WORDS = frozenset({"leader", "teamlead", "team-leader", "main", "coordinator", "manager", "parent"})
"""Words that models write for the lead."""

TO_ALL = "write '*' for all members"
"""The advice for a name that means all of them."""


def name_advice(text: str, members: Iterable[str], otherwise: Iterable[str] = ()) -> list[str]:
    """Return the advice for a name that no member has, with quotes, brackets and the team left out.

    It names the nearest member, and `*` for a text that means all members or several.
    """
    names = list(map(display_name, members))
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
    if set(words) & _MEANS_ALL:
        return [TO_ALL]
    return did_you_mean(bare, names, otherwise)


def did_you_mean(word: str, known: Iterable[str], otherwise: Iterable[str] = ()) -> list[str]:
    """Return the advice for a name that is not known: the most similar known name, else `otherwise`."""
    close = nearest(word, known)
    return [f"did you mean {close}?"] if close else list(otherwise)


CLOSE = 0.6
"""The least similarity of two words, from 0 to 1, at which one is suggested for the other: half of their letters and a
little more."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to this one, or None."""
    return next(iter(similar(word, known, 1)), None)


def similar(word: str, known: Iterable[str], most: int) -> list[str]:
    """Return at most so many known words that are similar to this one, without regard to case; the best first."""
    lower = {name.lower(): name for name in known}
    import difflib

    return [lower[name] for name in difflib.get_close_matches(word.lower(), lower, n=most, cutoff=CLOSE)]


def is_typo(word: str, known: str) -> bool:
    """Return True when `word` is probably a typo of `known`: another case, or one letter more, less, wrong or out of
    place. Words of less than four letters must be equal, except for case."""
    one = word.lower()
    other = known.lower()
    longest = max(len(one), len(other))
    if longest < 4 or abs(len(one) - len(other)) > 1:
        return one == other
    same = _common_start(one, other)
    same += _common_start(one[same:][::-1], other[same:][::-1])
    return same >= longest - 1 or (same == longest - 2 and sorted(one) == sorted(other))


def _common_start(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_LABEL_KEYS = frozenset({"$schema", "$comment", "comment", "comments", "description", "id", "name"})


def is_label(key: str) -> bool:
    """Return True for a key of settings, hooks or MCP servers that is written for people and has no effect anywhere."""
    return key in _LABEL_KEYS or key.startswith(("//", "_"))
