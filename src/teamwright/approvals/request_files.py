"""The files of pending requests: those of a running session, and the open ones of all processes of the user.

A session opens, answers and retires the files in its team's directory, or in its own before it has a team, and reads
the answers of other processes. Reading the requests of all processes, or waiting for one, takes no lock, and leaves out
those that were answered before.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.permissions.verdict import Question
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import RequestAnswer
from teamwright.protocol.ids import LEAD, inbox_stem, now_ms
from teamwright.protocol.pending_request import REQUEST_KINDS, PendingRequest
from teamwright.requests.request_store import LeadProcess, RequestStore, is_asked_again
from teamwright.storage.doorbell import listen
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.file_watcher import GATHER_S, Watcher
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.teams.team import SessionTeam

REQUESTS = "requests"
"""Name of the directory of requests, in a team's directory and in a session's."""


CUT_OFF = "the process that asked ended before anybody answered"


ELSEWHERE = "another terminal"
"""The approver's name when another process of the user answered."""


class RequestFiles(Struct):
    """The request files of the session in this directory, or in that of its team.

    `watch` calls back when a directory changes, for answers without a doorbell.
    """

    directory: Path
    session: str
    team: SessionTeam | None = None
    watch: Callable[[Path, Callable[[], None]], Callable[[], None]] | None = None
    _unlisten: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _lead_process: LeadProcess | None = None

    @property
    def lead_process(self) -> LeadProcess:
        """The incarnation of this process, to which its requests are bound."""
        if self._lead_process is None:
            self._lead_process = LeadProcess.from_lease(self.session, lease_path(self.directory))
        return self._lead_process

    def open(
        self,
        id: str,
        question: Question,
        suggestions: Sequence[Mapping[str, Any]],
        *,
        target: str,
        timeout_s: float | None,
        look: Callable[[], None],
    ) -> RequestStore:
        """Write the request. Return the store that contains it. Raises StorageError.

        `look` is called when an answer may have arrived.
        """
        team = self.team if self.team is not None and self.team.exists else None
        box = team.requests if team is not None else self._own_box
        if team is None:
            self._open_doorbell(look)
        owner = team.find(question.owner) if team is not None else None
        body = request_body(question, suggestions, self.lead_process, owner.incarnation if owner is not None else None)
        opened = now_ms()
        times = {"opened_at": opened, "deadline": None if timeout_s is None else opened + int(timeout_s * 1000)}
        box.open(id, {**body, "target": target, **times})
        return box

    def answer(self, box: RequestStore, id: str, answer: RequestAnswer, call: str = "") -> bool:
        """Record an answer and return True when it is the first. Without a writable file, only memory counts.

        `call` names the tool call of a lead that answers.
        """
        try:
            return box.answer(id, answer_body(answer, answer.by) | ({"call": call} if call else {}))
        except TeamwrightError:
            return True

    def answer_in(self, box: RequestStore, id: str) -> RequestAnswer | None:
        """Return the answer that another process wrote; None without one."""
        with suppress(TeamwrightError):
            body = box.get_answer(id)
            return None if body is None else parse_answer(body)
        return None

    def closed_request(self, id: str) -> tuple[PendingRequest, RequestAnswer, str] | None:
        """Return a closed request, its answer and the tool call that gave it; None for an unknown id."""
        for box in self._boxes():
            with suppress(TeamwrightError):
                found = box.get_answered(id)
                parsed = parse_request(found[0]) if found is not None else None
                if found is not None and parsed is not None:
                    return parsed[0], parse_answer(found[1]), str(found[1].get("call") or "")
        return None

    def retire(self, box: RequestStore, id: str) -> None:
        """Retire the closed request, so that it is not read again."""
        with suppress(TeamwrightError):
            box.retire(id)

    def late_answers(self) -> Iterator[dict[str, Any]]:
        """Yield the late notes of other processes, each once: late answers, and attempts of agents' commands."""
        for box in self._boxes():
            with suppress(TeamwrightError):
                yield from box.take_late_answers()

    def close_abandoned(self) -> Iterator[tuple[PendingRequest, RequestAnswer]]:
        """Close the requests of earlier incarnations, which no process waits for. Yield each with its answer.

        A request that was answered just before the kill, or since then, keeps its answer. No call of these ran: a
        process retires a request before it runs the call.
        """
        for box in self._boxes():
            with suppress(TeamwrightError):
                yield from self._abandoned_in(box)

    def _abandoned_in(self, box: RequestStore) -> Iterator[tuple[PendingRequest, RequestAnswer]]:
        for body in (*box.open_requests(), *(request for request, _ in box.answered_requests())):
            parsed = parse_request(body)
            if parsed is None or parsed[1] == self.lead_process:
                continue
            id = parsed[0].id
            cut_off = RequestAnswer(verdict="deny", text=CUT_OFF, by="cancelled")
            with suppress(TeamRefused):
                box.answer(id, answer_body(cut_off, cut_off.by))
            counts = self.answer_in(box, id) or cut_off
            box.retire(id)
            yield parsed[0], counts

    def close(self) -> None:
        """Stop listening for answers."""
        while self._unlisten:
            self._unlisten.pop()()

    @property
    def _own_box(self) -> RequestStore:
        return RequestStore(self.directory / REQUESTS)

    def _boxes(self) -> Iterator[RequestStore]:
        yield self._own_box
        if self.team is not None and self.team.exists:
            yield self.team.requests

    def use_team(self, team: SessionTeam) -> None:
        """Write the requests to the files of this team from now on, once it exists."""
        self.team = team

    def _open_doorbell(self, look: Callable[[], None]) -> None:
        """Open the session's own doorbell; a team has one already."""
        if self._unlisten:
            return
        box = self._own_box.directory
        self._unlisten.append(listen(doorbell_of(box), look))
        if self.watch is not None:
            self._unlisten.append(self.watch(box, look))


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
    home: Home | None = None

    @property
    def resume_command(self) -> str:
        """The command that resumes the session that asked."""
        command = f"teamwright resume {shlex.quote(self.team) if self.team else self.session[:8]}"
        return self.home.name_in(command) if self.home is not None else command

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
    return [request for body in bodies if (request := _with_state(place, body)) is not None]


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
            yield RequestDirectory(box, lease_path(box.parent), session=box.parent.name, home=home)


def _with_state(place: RequestDirectory, body: dict[str, object]) -> PendingRequest | None:
    parsed = parse_request(body)
    if parsed is None:
        return None
    request, lead_process = parsed
    is_alive = place.is_alive(lead_process)
    return replace(
        request,
        team=place.team,
        box=place.box,
        is_alive=is_alive,
        resume="" if is_alive else place.resume_command,
        waits_for_resume=is_asked_again(request.kind, request.tool_use_id)
        and not is_alive
        and not lease_held(place.lease),
    )


def _of_team(home: Home, box: Path) -> RequestDirectory | None:
    from teamwright.team_records.file_stores import FileStores

    directory = box.parent.name
    try:
        stores = FileStores(home)
        file = stores.read_state(directory)
        name = stores.read_roster(directory).name
    except (TeamwrightError, OSError, ValueError):
        return None
    if file is None:
        return None
    return RequestDirectory(box, Path(file.lead.lease or lease_path(box.parent)), name, file.lead.session, home)


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


# ── requests that wait for a person ────────────────────────────────────────────────────────────────────────────


def waiting_requests(home: Home) -> list[PendingRequest]:
    """Return the requests that a person may answer now, oldest first: those of running processes."""
    return [one for one in open_requests(home) if one.is_alive]


async def wait_for_request(home: Home) -> list[PendingRequest]:
    """Return the open requests; without any, wait for one in any process."""
    async with Watcher() as watcher:
        everywhere = _FollowedDirectories(home, watcher)
        while True:
            everywhere.follow()
            if found := waiting_requests(home):
                return found
            await everywhere.changed.wait()
            await asyncio.sleep(GATHER_S)
            everywhere.changed.clear()


class _FollowedDirectories(Struct):
    """The directories in which a request may appear: those of all teams, and of running sessions."""

    home: Home
    watcher: Watcher
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _followed: set[Path] = field(default_factory=set[Path])
    _quiet: set[Path] | None = None
    """Sessions that no process ran at the first look."""

    def follow(self) -> None:
        """Follow the present directories, and those of later teams and sessions."""
        teams = self.home.shared / "teams"
        projects = self.home.own / "projects"
        self._directory(teams)
        self._directory(projects)
        for team in _below(teams):
            self._directory(RequestStore.of_team(self.home, team.name).directory)
        sessions: list[Path] = []
        for project in _below(projects):
            # A line in a transcript may show that a session was resumed. Sessions that are followed need no check.
            self._directory(project, lambda name, p=project: p / name.removesuffix(".jsonl") not in self._followed)
            sessions += _below(project)
        if self._quiet is None:
            self._quiet = {session for session in sessions if not lease_held(lease_path(session))}
        for session in sessions:
            # A session that was just created may not hold its lease yet.
            if session not in self._followed and (session not in self._quiet or lease_held(lease_path(session))):
                self._followed.add(session)
                self._directory(session / "requests")

    def _directory(self, directory: Path, concerns: Callable[[str], bool] = lambda _name: True) -> None:
        if directory not in self._followed:
            self._followed.add(directory)
            self.watcher.follow_directory(directory, lambda _names: self.changed.set(), concerns)


def _below(parent: Path) -> Iterator[Path]:
    try:
        yield from [entry for entry in parent.iterdir() if entry.is_dir()]
    except OSError:
        return
