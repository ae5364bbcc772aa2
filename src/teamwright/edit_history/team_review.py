"""The review of a team's work: for each member its last report, its changes, its tasks with their checks, and its cost.

Reads a session's files only. Depends on the edit history, the task list and the cost of a session.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.transcript import USER_MESSAGE, messages_backward
from teamwright.edit_history.edit_journal import EditJournal, display_name, read_journal
from teamwright.edit_history.history_location import (
    HistoryLocation,
    agents_of_member,
    find_history,
    history_of_session,
    subagent_owners,
)
from teamwright.edit_history.session_diff import FileChange, file_changes
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, session_list_name
from teamwright.protocol.messages import message_text
from teamwright.session.lookup.saved_members import match_member_name, transcripts_of
from teamwright.session.lookup.saved_teams import find_tasks, find_team_view
from teamwright.session.session import Session
from teamwright.storage.paths import Home
from teamwright.teams.status.team_views import TaskView
from teamwright.views.cost import CostRow, cost_of

_SEARCHED = 60
"""The newest messages of a transcript that are searched for the last report."""


class MemberReview(Struct, frozen=True):
    """The work of one member. `report` is its last text, `accepted` the time of the user's acceptance, if it is valid.

    `model_calls`, `tokens` and `usd` contain those of its sub-agents; `usd` is None for an unknown price.
    """

    name: str
    report: str = ""
    accepted: str = ""
    tasks: tuple[TaskView, ...] = ()
    files: tuple[FileChange, ...] = ()
    model_calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to review."""
        return not (self.report or self.tasks or self.files)


class TeamReview(Struct, frozen=True):
    """The work of a team: of its members, the lead first. The team may be deleted, or the session may have none.

    `running` is the session, when this process runs it.
    """

    home: Home
    place: HistoryLocation
    members: tuple[MemberReview, ...]
    running: Session | None = None

    def member(self, name: str) -> MemberReview:
        """Return the work of this member. Raises UnknownMember."""
        shown = match_member_name(name, [one.name for one in self.members], f"session {self.place.session[:8]}")
        return next(one for one in self.members if one.name == shown)


def team_review(home: Home, cwd: Path, name: str | None) -> TeamReview:
    """Return the review of a team, also of a deleted one, of a session, or of the newest session of this directory.

    Raises TeamwrightError (`unknown-team`, `unknown-session`), StorageError.
    """
    return _review(home, find_history(home, cwd, name))


def review_in_session(session: Session) -> TeamReview:
    """Return the review of a session of this process. Raises StorageError."""
    return replace(_review(session.agent_factory.home, history_of_session(session)), running=session)


def _review(home: Home, place: HistoryLocation) -> TeamReview:
    edits, owners = read_journal(place.history), subagent_owners(place)
    tasks = _tasks(home, place)
    costs = {row.name: row for row in cost_of(home, Path(place.cwd), place.session).members}
    names = [LEAD_ALIAS, *_roster(home, place), *costs, *(task.owner for task in tasks if task.owner)]
    names += [display_name(owners.get(agent, agent)) for agent in edits.members]
    made = (
        _member(place, edits, owners, one, [task for task in tasks if task.owner == one], costs.get(one))
        for one in dict.fromkeys(map(display_name, names))
    )
    return TeamReview(home, place, tuple(one for one in made if not one.is_empty))


def _roster(home: Home, place: HistoryLocation) -> list[str]:
    with suppress(TeamwrightError):
        return find_team_view(home, place.team, archived=True).member_names if place.team else []
    return []


def _tasks(home: Home, place: HistoryLocation) -> Sequence[TaskView]:
    with suppress(TeamwrightError):
        return find_tasks(home, place.team or session_list_name(place.session))
    return ()


def _member(
    place: HistoryLocation,
    edits: EditJournal,
    owners: dict[str, str],
    name: str,
    tasks: Sequence[TaskView],
    cost: CostRow | None,
) -> MemberReview:
    by: tuple[str, ...] = ()
    with suppress(TeamwrightError, UsageError):  # an external member, or one without edits
        by = agents_of_member(place, edits, name, owners)
    files = tuple(file_changes(edits, place.history, place.cwd, by, owners)) if by else ()
    newest = max((one.at for lines in edits.changes.values() for one in lines if one.member in by), default="")
    accepted = edits.accepted.get(name, "")
    calls, tokens, usd = _cost(cost)
    return MemberReview(
        name,
        _report(place, name),
        accepted if accepted > newest else "",
        tuple(tasks),
        files,
        calls,
        tokens,
        usd,
    )


def _cost(row: CostRow | None) -> tuple[int, int, float | None]:
    """Return model calls, tokens and cost of a member with its sub-agents."""
    if row is None:
        return 0, 0, 0.0
    calls, tokens, usd = row.model_calls, row.usage.tokens, row.usd
    for below in map(_cost, row.below):
        calls, tokens = calls + below[0], tokens + below[1]
        usd = None if usd is None or below[2] is None else usd + below[2]
    return calls, tokens, usd


def _report(place: HistoryLocation, name: str) -> str:
    """Return the newest text of a member, from its newest transcript; empty without one."""
    paths = transcripts_of(place.directory, LEAD if name == LEAD_ALIAS else name)
    paths += [path for room in place.rooms if room.name == name for path in room.glob("agents/*.jsonl")]
    found = [path for path in paths if path.exists()]
    if not found:
        return ""
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    with suppress(OSError, ValueError, TeamwrightError):
        newest_items = islice(messages_backward(newest), _SEARCHED)
        answers = (cast("dict[str, Any]", json.loads(item)) for item in newest_items if _is_answer(item))
        return next((text for one in answers if (text := message_text(one["content"]).strip())), "")
    return ""


def _is_answer(item: bytes) -> bool:
    return not item.startswith(USER_MESSAGE)
