"""The open requests in all processes of the user, read from the files of all teams and sessions, and their records.

Takes no lock, and does not read requests that were answered before. Depends on the places of requests and leases, and
on the texts of requests and answers.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.permissions.verdict import Question
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, inbox_stem
from teamwright.protocol.pending_request import REQUEST_KINDS, PendingRequest
from teamwright.protocol.pending_request_events import RequestAnswer
from teamwright.protocol.timestamps import now_ms
from teamwright.requests.request_store import RequestStore
from teamwright.requests.stop_request import LeadProcess
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.paths import Home

ELSEWHERE = "another terminal"
"""The approver's name when another process of the user answered."""


def parse_request(body: Mapping[str, Any]) -> tuple[PendingRequest, LeadProcess] | None:
    """Return the request in a file and the incarnation of its process; None for other kinds and damaged files."""
    if body.get("kind") not in REQUEST_KINDS:
        return None
    try:
        lead = cast("dict[str, Any]", body["lead"])
        lead_process = LeadProcess(str(lead["session"]), int(lead["pid"]), str(lead["since"]))
        request = PendingRequest(
            id=str(body["id"]),
            kind=str(body["kind"]),
            owner=str(body["requester"]),
            asker=str(body.get("asker") or body["requester"]),
            tool=str(body.get("tool") or ""),
            what=str(body.get("what") or ""),
            target=str(body.get("target") or "user"),
            rule=str(body.get("rule") or ""),
            always=str(body.get("always") or ""),
            description=str(body.get("description") or ""),
            tool_use_id=str(body.get("tool_use_id") or ""),
            input=_object(body.get("input")),
            options=tuple(str(one) for one in _items(body.get("options"))),
            suggestions=tuple(_object(one) for one in _items(body.get("suggestions"))),
            incarnation=incarnation if isinstance(incarnation := body.get("incarnation"), int) else None,
            opened_at=_seconds(body.get("opened_at")),
            deadline=_seconds(body.get("deadline")),
            session=lead_process.session,
            pid=lead_process.pid,
        )
    except (KeyError, TypeError, ValueError):
        return None
    return request, lead_process


def request_body(
    question: Question, suggestions: Sequence[Mapping[str, Any]], lead_process: LeadProcess, incarnation: int | None
) -> dict[str, Any]:
    """Return the content of a question's file, without its id, target and times."""
    return {
        "kind": question.kind,
        "requester": question.owner or question.member,
        "incarnation": incarnation,
        "asker": question.member,
        "tool": question.tool,
        "tool_use_id": question.tool_use_id,
        "description": question.description,
        "input": dict(question.input),
        "what": question.what,
        "rule": question.rule,
        "always": question.always,
        "suggestions": [dict(one) for one in suggestions],
        "options": list(question.options),
        "lead": {"session": lead_process.session, "pid": lead_process.pid, "since": lead_process.since},
    }


def answer_body(answer: RequestAnswer, by: str) -> dict[str, Any]:
    """Return the content of an answer's file."""
    return {
        "verdict": "allow" if answer.verdict == "allow" else "deny",
        "by": by,
        "text": answer.text,
        "always": answer.always,
        "input": None if answer.input is None else dict(answer.input),
        "updates": [dict(one) for one in answer.updates],
        "at": now_ms(),
    }


def parse_answer(body: Mapping[str, Any]) -> RequestAnswer:
    """Parse the answer in a file. Each verdict other than allow is a denial, also in a damaged file."""
    input_value = body.get("input")
    return RequestAnswer(
        verdict="allow" if body.get("verdict") == "allow" else "deny",
        always=body.get("always") is True,
        text=str(body.get("text") or ""),
        input=None if input_value is None else _object(input_value),
        updates=tuple(_object(one) for one in _items(body.get("updates"))),
        by=str(body.get("by") or ELSEWHERE),
    )


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _seconds(value: object) -> float:
    return value / 1000 if isinstance(value, int | float) else 0.0


REQUESTS = "requests"
"""Name of the directory of requests, in a team's directory and in a session's."""


def doorbell_of(box: Path) -> Path:
    """Return the doorbell of the process that watches this directory of requests: a team's lead, or a session."""
    return box.parent / "bells" / inbox_stem(LEAD)


class RequestDirectory(Struct, frozen=True):
    """A directory of requests: a team's, or that of a session which had no team when it asked."""

    box: Path
    lease: Path
    """The lease that the asking process holds until it exits."""
    team: str = ""
    session: str = ""

    @property
    def resume_command(self) -> str:
        """The command that resumes the session that asked."""
        return f"teamwright resume {shlex.quote(self.team) if self.team else self.session[:8]}"

    def is_alive(self, lead_process: LeadProcess) -> bool:
        """Return True when this incarnation of the lead's process is running."""
        return lease_held(self.lease) and LeadProcess.from_lease(lead_process.session, self.lease) == lead_process


def open_requests(home: Home) -> list[PendingRequest]:
    """Return all requests without an answer, oldest first, also those of processes that have exited (`is_alive` False).

    A file that cannot be read is skipped. Raises nothing.
    """
    found = [one for place in request_directories(home) for one in open_requests_in(place)]
    return sorted(found, key=lambda one: (one.opened_at, one.id))


def open_requests_in(place: RequestDirectory) -> list[PendingRequest]:
    """Return the open requests of one directory."""
    try:
        bodies = RequestStore(place.box).open_requests()
    except TeamwrightError:
        return []
    return [request for body in bodies if (request := _seen(place, body)) is not None]


def match_requests(home: Home, text: str) -> list[PendingRequest]:
    """Return the open requests that match an id, its beginning or the beginning of its last part."""
    everything = open_requests(home)
    exact = [one for one in everything if one.id == text]
    return exact or [one for one in everything if text and matches_id(one.id, text)]


def matches_id(id: str, text: str) -> bool:
    """Return True when the text is the beginning of the id, or of its last part, which is easier to type."""
    return id.startswith(text) or id.rpartition("-")[2].startswith(text)


def request_directories(home: Home, *, empty: bool = False) -> Iterator[RequestDirectory]:
    """Yield each directory of a team or session that contains requests; with `empty` also directories without any."""
    teams = home.own / "teamwork" if home.is_foreign else home.shared / "teams"
    for box in _boxes(_entries(teams), empty=empty):
        directory = _of_team(home, box)
        if directory is not None:
            yield directory
    for project in _entries(home.own / "projects"):
        for box in _boxes(_entries(project), empty=empty):
            yield RequestDirectory(box, lease_path(box.parent), session=box.parent.name)


def _seen(place: RequestDirectory, body: dict[str, object]) -> PendingRequest | None:
    parsed = parse_request(body)
    if parsed is None:
        return None
    request, lead_process = parsed
    is_alive = place.is_alive(lead_process)
    is_asked_again = bool(request.tool_use_id) and request.kind in {"permission", "question"}
    return replace(
        request,
        team=place.team,
        box=place.box,
        is_alive=is_alive,
        resume="" if is_alive else place.resume_command,
        waits_for_resume=is_asked_again and not is_alive and not lease_held(place.lease),
    )


def _of_team(home: Home, box: Path) -> RequestDirectory | None:
    from teamwright.team_records.file_stores import FileStores

    directory = box.parent.name
    try:
        stores = FileStores(home)
        file, name = stores.read_state(directory), stores.read_roster(directory).name
    except (TeamwrightError, OSError, ValueError):
        return None
    if file is None:
        return None
    return RequestDirectory(box, Path(file.lead.lease or lease_path(box.parent)), name, file.lead.session)


def _boxes(parents: Iterable[Path], *, empty: bool) -> Iterator[Path]:
    for parent in parents:
        box = parent / REQUESTS
        if any(path.suffix == ".json" for path in _entries(box)) or (empty and box.is_dir()):
            yield box


def _entries(directory: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(directory)]
    except OSError:
        return []
