"""The acts of members: the events and tool calls of a log, and the conversation of one member.

A log is found by the name of a team or the id of a session. Transcripts are read backward as far as needed, so the cost
does not depend on their length. Members in separate processes are shown like those of this process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from teamwright.agent.transcript import (
    MESSAGE_KEY,
    header_tag_key,
    line_blocks,
    line_message,
    read_header,
    shown_messages_backward,
)
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, display_name
from teamwright.protocol.messages import Block, message_text
from teamwright.protocol.runtime_tags import NO_KEY_TAGS, RuntimeTags
from teamwright.saved.saved_members import transcripts_of
from teamwright.saved.sessions import SessionView, find_session, latest_session, session_views
from teamwright.saved.teams import find_team_view
from teamwright.storage.event_log import read_events, read_newest
from teamwright.storage.json_lines import read_lines
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.session.session import Session
    from teamwright.teams.teammate import Teammate


class LogView(Struct, frozen=True):
    """One event log: its path, session and team (empty: unknown)."""

    path: Path
    session: str = ""
    team: str = ""


def find_log(home: Home, cwd: Path, name: str | None) -> LogView:
    """Find the log of a team (on disk, else the newest archived), of a session, or of the newest session here.

    Raises TeamwrightError (`unknown-team`, `unknown-session`).
    """
    if not name:
        return _log_of_session(latest_session(home, cwd))
    try:
        team = find_team_view(home, name, archived=True)
    except TeamwrightError as no_team:
        try:
            return _log_of_session(find_session(home, cwd, name))
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


def _log_of_session(session: SessionView) -> LogView:
    return LogView(session.log, session.id)


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


def event_name(member: str) -> str:
    """Return a member's name in lower case, as events have it; `lead` is the lead."""
    lower = member.lower().partition("@")[0]
    return LEAD if lower == LEAD_ALIAS else lower


# ── tool calls ─────────────────────────────────────────────────────────────────────────────────────────────────


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


LOGGED = 4_000
"""Maximum characters of an output in the log; the transcript has the rest."""


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
    whole = _whole_output(log, event) if len(event.output) >= LOGGED else event.output
    return CallView(
        event.call,
        display_name(event.member),
        event.tool,
        event.input,
        event.outcome,
        event.at,
        event.seconds,
        event.output if whole is None else whole,
        complete=whole is not None,
    )


def _whole_output(log: LogView, event: ToolCalled) -> str | None:
    """Return the newest matching result of tool and input in the member's transcripts, which begins like the log's."""
    found: str | None = None
    for path in transcripts_of(log.path.parent, event.member):
        for text in _results_in(path, event.tool, dict(event.input)):
            if text.startswith(event.output):
                found = text
    return found


def _results_in(path: Path, tool: str, tool_input: dict[str, Any]) -> Iterator[str]:
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
        return line_blocks(line)
    except (ValueError, KeyError, TypeError):
        return []


# ── conversations ──────────────────────────────────────────────────────────────────────────────────────────────

Message = Mapping[str, Any]
"""`{"role", "content"}`, as it is sent to a model."""

_MOST_READ = 4_000_000
"""Maximum bytes of a transcript that are read for earlier messages; older ones are skipped."""


class ConversationReader(Struct):
    """A reader of one member's transcript. `live`: the member runs in this process and emits events at once.

    `foreign`: an external member, whose transcript is not accessible.
    """

    path: Path
    live: bool
    foreign: bool = False
    _at: int = 0
    _tags: RuntimeTags | None = None

    def __post_init__(self) -> None:
        self._at = self._size()

    def recent(self, most: int) -> list[Message]:
        """Return the newest messages, at most `most`, oldest first."""
        with suppress(OSError, ValueError):
            newest = [self._message(message) for message in islice(shown_messages_backward(self.path), most)]
            return newest[::-1]
        return []

    def new_messages(self) -> list[Message]:
        """Return the messages that were written since the last call, complete lines only."""
        size = self._size()
        begin = max(self._at, size - _MOST_READ)
        if size <= begin:
            return []
        with suppress(OSError, ValueError):
            with open(self.path, "rb", buffering=0) as file:
                read = os.pread(file.fileno(), size - begin, begin)
            whole = read.rpartition(b"\n")[0]
            self._at = begin + len(whole) + (1 if whole else 0)
            return [self._message(one) for line in whole.split(b"\n") if (one := _message(line))]
        self._at = size
        return []

    def _message(self, item: bytes) -> Message:
        """Return a message as shown to people, without the key of the runtime's tags."""
        if self._tags is None:
            with suppress(TeamwrightError):
                self._tags = RuntimeTags(header_tag_key(read_header(self.path) or {}))
        message: dict[str, Any] = json.loads(item)
        return {**message, "content": (self._tags or NO_KEY_TAGS).without_key(message["content"])}

    def _size(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_size
        return 0


def conversation_of(teammate: Teammate) -> ConversationReader:
    """Return the conversation of a live member."""
    # Commands on files load no live team.
    from teamwright.external.external_member import ExternalMember
    from teamwright.teams.local_teammate import LocalTeammate

    return ConversationReader(
        teammate.transcript_path, isinstance(teammate, LocalTeammate), isinstance(teammate, ExternalMember)
    )


def saved_conversation(session: Session, name: str) -> ConversationReader | None:
    """Return the conversation of a member that has ended, or of a sub-agent by its id; None without a transcript."""
    agent_factory = session.agent_factory
    paths = transcripts_of(agent_factory.home.session(agent_factory.cwd, session.id), name)
    found = [path for path in paths if path.exists()]
    return ConversationReader(max(found, key=lambda path: path.stat().st_mtime_ns), live=False) if found else None


def _message(line: bytes) -> bytes:
    """Return the message of a transcript line; empty for a line without one."""
    is_message = line.startswith((b'{"type":"user"', b'{"type":"assistant"'))
    at = line.find(MESSAGE_KEY) if is_message else -1
    return line_message(line, at) if at > 0 else b""


_SUBJECT_KEYS: Sequence[str] = (
    "command",
    "file_path",
    "path",
    "pattern",
    "url",
    "query",
    "to",
    "taskId",
    "subject",
    "name",
)
"""Keys of a call's input that describe its subject, the most specific first."""


def describe_input(call: Mapping[str, Any]) -> str:
    """Return a short description of a call's input: the value that names its subject, else its beginning."""
    tool_input: Mapping[str, Any] = call.get("input") or {}
    texts = [
        str(tool_input[key])
        for key in _SUBJECT_KEYS
        if isinstance(tool_input.get(key), str | int) and tool_input[key] != ""
    ]
    others = [value for value in tool_input.values() if isinstance(value, str)]
    return next(iter((*texts, *others)), "")
