"""Events from an event log, and complete tool calls from log and transcript together.

A log is found by the name of a team or the id of a session. Depends on both formats.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.messages import Block, message_text
from teamwright.saved.saved_members import transcripts_of
from teamwright.saved.sessions import SessionView, find_session, latest_session, session_views
from teamwright.saved.teams import find_team_view
from teamwright.storage.event_log_reader import read_events, read_newest
from teamwright.storage.jsonl import read_lines
from teamwright.storage.paths import Home

LOGGED = 4_000
"""Maximum characters of an output in the log; the transcript has the rest."""


class LogView(Struct, frozen=True):
    """One event log: its path, session and team (empty: unknown)."""

    path: Path
    session: str = ""
    team: str = ""


class CallView(Struct, frozen=True):
    """One tool call with its whole output. `complete` is False when the log cut it and no transcript has it."""

    call: str
    member: str
    tool: str
    input: Mapping[str, Any]
    outcome: str
    at: float
    seconds: float
    output: str
    complete: bool = True


def find_log(home: Home, cwd: Path, name: str | None) -> LogView:
    """Find the log of a team (on disk, else the newest archived), of a session, or of the newest session here.

    Raises TeamwrightError (`unknown-team`, `unknown-session`).
    """
    if not name:
        return _of_session(latest_session(home, cwd))
    try:
        team = find_team_view(home, name, archived=True)
    except TeamwrightError as no_team:
        try:
            return _of_session(find_session(home, cwd, name))
        except TeamwrightError:
            raise no_team from None
    if team.log and Path(team.log).exists():
        return LogView(Path(team.log), team.session, team.name)
    session = next((view for view in session_views(home) if view.id == team.session), None)
    if session is None:
        raise TeamwrightError(
            "unknown-session",
            f"team {team.name} has no log here",
            looked_at=[("session", team.session or "not named")],
        )
    return LogView(session.log, session.id, team.name)


def log_events(
    log: LogView, *, member: str | None = None, since: float | None = None, last: int | None = None
) -> Iterator[tuple[int, TeamEvent]]:
    """Return the numbered events of a log: of one member, since a time (seconds since 1970), the `last` ones only.

    With `since` or `last` the log is read backward to the first matching event.
    """
    member_name = None if member is None else event_name(member)
    if since is None and last is None:
        events = read_events(log.path)
    else:
        events = reversed(_newest(log, member_name, since or 0.0, sys.maxsize if last is None else last))
    return ((number, event) for number, event in events if member_name is None or event.member.lower() == member_name)


def first_event_number(log: LogView, since: float | None, last: int | None, member: str | None = None) -> int | None:
    """Return the number after which the matching events, or the `last` of them, begin; None: at the end.

    `member` is a name as events have it.
    """
    if since is None and last is None:
        return None
    newest = _newest(log, member, since or 0.0, sys.maxsize if last is None else last)
    return newest[-1][0] - 1 if newest else None


def _newest(log: LogView, member: str | None, since: float, most: int) -> list[tuple[int, TeamEvent]]:
    """Return the newest matching events, newest first."""
    events = read_newest(log.path, since=since)
    fits = ((n, one) for n, one in events if one.at >= since and (member is None or one.member.lower() == member))
    return list(islice(fits, most))


def find_call(log: LogView, call: str) -> CallView:
    """Return the newest call of that number (`c7`, or `7`) with its whole output. Raises TeamwrightError (`usage`)."""
    number = f"c{call.strip().lower().removeprefix('c')}"
    marks = (b'"tool_called"', b'"call":%s' % json.dumps(number).encode())
    found = (event for _, event in read_newest(log.path, marks=marks))
    event = next((one for one in found if isinstance(one, ToolCalled) and one.call == number), None)
    if event is None:
        events = (event for _, event in read_events(log.path))
        numbers = list(dict.fromkeys(one.call for one in events if isinstance(one, ToolCalled)))
        raise TeamwrightError(
            "usage",
            f"there is no call {number} in this log",
            looked_at=[("log", str(log.path)), ("calls", f"{numbers[0]} to {numbers[-1]}" if numbers else "none")],
        )
    output, complete = event.output, True
    if len(output) >= LOGGED:
        whole = _from_transcripts(log, event)
        output, complete = (whole, True) if whole is not None else (output, False)
    return CallView(
        event.call,
        LEAD_ALIAS if event.member == LEAD else event.member,
        event.tool,
        event.input,
        event.outcome,
        event.at,
        event.seconds,
        output,
        complete,
    )


# ── the whole output ─────────────────────────────────────────────────────────────────────────────────────────


def _from_transcripts(log: LogView, event: ToolCalled) -> str | None:
    """Return the newest matching result of tool and input in the member's transcripts, which begins like the log's."""
    found: str | None = None
    for path in transcripts_of(log.path.parent, event.member):
        for text in _results(path, event.tool, dict(event.input)):
            if text.startswith(event.output):
                found = text
    return found


def _results(path: Path, tool: str, tool_input: dict[str, Any]) -> Iterator[str]:
    waiting: set[str] = set()
    for line in read_lines(path):
        if b'"tool_use' not in line and b'"tool_result"' not in line:
            continue
        for block in _blocks(line):
            if block.get("type") == "tool_use" and block.get("name") == tool and block.get("input") == tool_input:
                waiting.add(str(block.get("id")))
            elif block.get("type") == "tool_result" and block.get("tool_use_id") in waiting:
                content = block.get("content")
                yield content if isinstance(content, str) else message_text(cast("list[Block]", content or []))


def _blocks(line: bytes) -> list[Block]:
    try:
        content = cast("dict[str, Any]", json.loads(line))["message"]["content"]
    except (ValueError, KeyError, TypeError):
        return []
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("Block", block) for block in blocks if isinstance(block, dict)]


def _of_session(session: SessionView) -> LogView:
    return LogView(session.log, session.id)


def event_name(member: str) -> str:
    """Return a member's name in lower case, as events have it; `lead` is the lead."""
    lower = member.lower().partition("@")[0]
    return LEAD if lower == LEAD_ALIAS else lower
