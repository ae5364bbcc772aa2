"""Request files: pending requests and their answers, of which the first one counts.

Two files for each request: `<id>.json`, written once by the requester, and `<id>.answer.json`, linked into place once
by the first approver. The callers know the content, and who may answer. The user's processes ask a lead's process by
a stop request to stop a member or the team: it is bound to that process, and a later process of the same session
answers it without stopping anything.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from msgspec import Struct

from teamwright.protocol.errors import InvalidName, StorageError, TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD, now_ms
from teamwright.storage.files import MAX_BYTES, keep_damaged_copy, read_plain, storage_error, write_new
from teamwright.storage.paths import Home

VERSION = 1

RETIRED_DIRECTORY = "answered"
"""The directory of closed requests."""

REFUSED = "refused"
"""Key of a late note with the command that an agent tried."""

QUESTION_PREFIX = "ask-"
"""The beginning of the ids of questions from another terminal."""

_KEYS = ("requester", "target", "incarnation", "opened_at", "deadline")
_ANSWER = ".answer"
_LATE = re.compile(r".+\.late\.[0-9a-f]{8}")
_LONGEST_NAME = 200
_ESCAPED_BYTE = re.compile(rb"[^A-Za-z0-9._@-]")
_AMBIGUOUS = re.compile(r"^\.|\.(?=answer$)")


class RequestStore:
    """The directory of a team's requests. Every call raises StorageError when the disk refuses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def of_team(cls, home: Home, directory: str) -> RequestStore:
        """Return the requests of the team in that directory."""
        return cls(home.requests(directory))

    def open(self, request_id: str, body: Mapping[str, Any]) -> Path:
        """Open a request. Return its file, which contains `id`, `v`, the body, and the five keys of every request.

        Those are requester, target, incarnation, opened_at and deadline (ms since 1970); a missing one is null, but
        opened_at is now. Opening the same request again changes nothing. Raises UsageError when the id is in use for
        another request, InvalidName for an id that cannot be a file's name.
        """
        path = self._path(request_id)
        whole = {"id": request_id, "v": VERSION} | dict.fromkeys(_KEYS) | {"opened_at": now_ms()} | dict(body)
        if not write_new(path, _encode(whole)):
            there = self.get(request_id) or {}
            if any(there.get(key) != value for key, value in json.loads(_encode(body)).items()):
                raise UsageError("usage", f"the request id {request_id} is in use already", note="nothing was asked")
        return path

    def answer(self, request_id: str, body: Mapping[str, Any]) -> bool:
        """Answer a request. Return False when another answer was first and counts. Raises TeamRefused for an unknown
        request."""
        path = self._path(request_id)
        if self.get(request_id) is None:
            raise TeamRefused(
                "team-refused", f"there is no open request {request_id[:80]!r}", note="nothing was answered"
            )
        content = _encode({"id": request_id, "v": VERSION} | dict(body))
        if not write_new(answer_path(path), content):
            return False
        return path.exists() or self._is_retired_answer(answer_path(path), content)

    def _is_retired_answer(self, answer: Path, content: bytes) -> bool:
        """Return True when the answer that was just written is the one that was retired with its request since.

        A request is moved before its answer: if another answer is already retired, this one came after both had been
        moved.
        """
        try:
            if (self.directory / RETIRED_DIRECTORY / answer.name).read_bytes() == content:
                return True
            answer.unlink(missing_ok=True)
        except FileNotFoundError:
            return True  # this answer, which is being moved
        except OSError as problem:
            raise storage_error(problem, answer) from problem
        return False

    def get(self, request_id: str) -> dict[str, Any] | None:
        """Return the request; None when there is none, or when its file was damaged and is now set aside."""
        return _load(self._path(request_id))

    def get_answer(self, request_id: str) -> dict[str, Any] | None:
        """Return the answer; None while there is none."""
        return _load(answer_path(self._path(request_id)))

    def open_requests(self) -> list[dict[str, Any]]:
        """Return all requests without an answer, the oldest first."""
        names = self._names()
        request_names = [name for name in names if not name.endswith(f"{_ANSWER}.json")]
        bodies = [
            _load_or_skip(self.directory / n)
            for n in request_names
            if f"{n.removesuffix('.json')}{_ANSWER}.json" not in names
        ]
        return sorted((body for body in bodies if body is not None), key=_opened_at)

    def has_questions(self) -> bool:
        """Return True when a person asks an agent a question from another terminal (`outside_question`)."""
        return any(name.startswith(QUESTION_PREFIX) for name in self._names())

    def count_asked_again(self) -> int:
        """Return the number of requests, answered or not, that the resume of their session takes up."""
        names = [name for name in self._names() if not name.endswith(f"{_ANSWER}.json")]
        return _count_asked_again(_load_or_skip(self.directory / name) for name in names)

    def answered_requests(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return all requests with their answers; retired ones are left out."""
        names = self._names()
        request_names = [n for n in names if f"{n.removesuffix('.json')}{_ANSWER}.json" in names]
        pairs = [
            (_load_or_skip(self.directory / n), _load_or_skip(answer_path(self.directory / n)))
            for n in sorted(request_names)
        ]
        return [(body, answer) for body, answer in pairs if body is not None and answer is not None]

    def get_answered(self, request_id: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return an answered request with its answer, retired or not; None when it is open or unknown."""
        body = self.get(request_id)
        answer = self.get_answer(request_id)
        return (body, answer) if body is not None and answer is not None else self.get_retired(request_id)

    def get_retired(self, request_id: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return a retired request with its answer; None when there is none of that id."""
        done = RequestStore(self.directory / RETIRED_DIRECTORY)
        body = done.get(request_id)
        answer = done.get_answer(request_id)
        return (body, answer) if body is not None and answer is not None else None

    def retired_ids(self) -> list[str]:
        """Return the ids of all retired requests: only for messages about an id that is not open."""
        names = RequestStore(self.directory / RETIRED_DIRECTORY)._names()
        return sorted(parse_file_stem(n.removesuffix(".json")) for n in names if not n.endswith(f"{_ANSWER}.json"))

    def retire(self, request_id: str) -> None:
        """Move a closed request, with its answer, to `answered/`: open ones are then found among few files.

        The request is moved first (see `answer`).
        """
        path = self._path(request_id)
        done = self.directory / RETIRED_DIRECTORY
        try:
            done.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in (path, answer_path(path)):
                if file.exists():
                    os.rename(file, done / file.name)
        except OSError as problem:
            raise storage_error(problem, path) from problem

    def record_late_answer(self, request_id: str, body: Mapping[str, Any]) -> None:
        """Record an answer that came after the first one; the requester reads it with `take_late_answers`."""
        name = f"{file_stem(request_id)}.late.{secrets.token_hex(4)}"
        write_new(self.directory / name, _encode({"id": request_id, "v": VERSION} | dict(body)))

    def take_late_answers(self) -> list[dict[str, Any]]:
        """Return and remove the late answers, in the order of their file names."""
        late = [path for path in sorted(self._entries()) if _LATE.fullmatch(path.name)]
        bodies = [_load_or_skip(path) for path in late]
        for path in late:
            with suppress(OSError):  # the directory of another user
                path.unlink(missing_ok=True)
        return [body for body in bodies if body is not None]

    def _entries(self) -> list[Path]:
        try:
            return [Path(entry.path) for entry in os.scandir(self.directory)]
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise storage_error(problem, self.directory) from problem

    def _names(self) -> set[str]:
        try:
            with os.scandir(self.directory) as entries:
                return {entry.name for entry in entries if entry.name.endswith(".json")}
        except FileNotFoundError:
            return set()
        except OSError as problem:
            raise storage_error(problem, self.directory) from problem

    def _path(self, request_id: str) -> Path:
        return self.directory / f"{file_stem(request_id)}.json"


def count_asked_again(contents: Iterable[bytes]) -> int:
    """Return the number of these stored requests that the resume of their session takes up."""
    return _count_asked_again(map(_parse_or_skip, contents))


def _count_asked_again(bodies: Iterable[dict[str, Any] | None]) -> int:
    return sum(is_asked_again(str(b.get("kind")), str(b.get("tool_use_id") or "")) for b in bodies if b is not None)


def is_asked_again(kind: str, tool_use_id: str) -> bool:
    """Return True when the resume of its session asks again: a call that waited, a plan, or a review.

    Files of the team bring plans and reviews back, with or without a call.
    """
    return kind in {"plan", "review"} or (kind in {"permission", "question"} and bool(tool_use_id))


def file_stem(request_id: str) -> str:
    """Return a request's id as a file name: percent-encoded outside `[A-Za-z0-9._@-]`. Raises InvalidName.

    A leading dot, and the dot of an ending `.answer`, are encoded too: no file is hidden, or is another request's
    answer.
    """
    text = _ESCAPED_BYTE.sub(lambda odd: b"%%%02X" % odd[0][0], request_id.encode("utf-8", "replace")).decode()
    text = _AMBIGUOUS.sub("%2E", text)
    if not text or len(text) > _LONGEST_NAME:
        raise InvalidName("bad-name", f"{request_id[:80]!r} cannot be a request's id", note="nothing was touched")
    return text


def parse_file_stem(stem: str) -> str:
    """Return the id whose file has this stem."""
    return unquote(stem)


def _belongs_to(path: Path, id: object) -> bool:
    """Return True when the file is the request of this id, its answer, or a late one."""
    try:
        stem = file_stem(id) if isinstance(id, str) else ""
    except InvalidName:
        return False
    if not stem or not path.name.startswith(stem):
        return False
    rest = path.name[len(stem) :]
    return rest in {".json", f"{_ANSWER}.json"} or _LATE.fullmatch(f"-{rest}") is not None


def answer_path(path: Path) -> Path:
    """Return the file of the answer to the request in that file."""
    return path.with_name(f"{path.name.removesuffix('.json')}{_ANSWER}.json")


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(body), ensure_ascii=False, indent=2).encode("utf-8", "replace")


def _opened_at(body: Mapping[str, Any]) -> float:
    moment = body.get("opened_at")
    return float(moment) if isinstance(moment, int | float) else 0.0


def _parse_or_skip(content: bytes) -> dict[str, Any] | None:
    try:
        body: object = json.loads(content)
    except ValueError:
        return None
    return cast("dict[str, Any]", body) if isinstance(body, dict) else None


def _load_or_skip(path: Path) -> dict[str, Any] | None:
    """Return the object in the file; skip an unreadable file of another program, so that it does not hide the
    others.
    """
    try:
        return _load(path)
    except StorageError:
        return None


def _load(path: Path) -> dict[str, Any] | None:
    """Return the object in the file. Other content is copied aside and removed: it could never be answered.

    The same happens to an object whose id differs from the file's name. Raises StorageError, also for a path that is no
    plain file.
    """
    try:
        content = read_plain(path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and _belongs_to(path, cast("dict[str, Any]", value).get("id")):
        return cast("dict[str, Any]", value)
    keep_damaged_copy(path, content)
    path.unlink(missing_ok=True)
    return None


_STOP_KIND = "stop"
_STOP_PREFIX = "stop-"

USER = "user"
"""The requester of a stop: the person who typed the command."""


class LeadProcess(Struct, frozen=True):
    """One process of a lead: its session, its pid, and since when it holds the session's lease."""

    session: str
    pid: int
    since: str

    @classmethod
    def from_lease(cls, session: str, lease: Path) -> LeadProcess:
        """Return the process that wrote the note in the lease file; pid 0 when there is none."""
        try:
            note = cast("dict[str, Any]", json.loads(lease.read_bytes()))
            return cls(session, int(note["pid"]), str(note.get("since", "")))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(session, 0, "")


class StopRequest(Struct, frozen=True):
    """A request to stop `target`, a member's name, or the lead's for the whole team. `now`: do not ask the members.

    `incarnation` is the incarnation of the member; None where it is unknown.
    """

    id: str
    target: str
    now: bool
    lead: LeadProcess
    incarnation: int | None = None

    @classmethod
    def new(cls, target: str, *, now: bool, lead: LeadProcess, incarnation: int | None = None) -> StopRequest:
        """Return a request with a new id."""
        return cls(f"{_STOP_PREFIX}{now_ms()}-{secrets.token_hex(4)}@{target}", target, now, lead, incarnation)

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> StopRequest | None:
        """Return the request in a file; None for another kind, and for damaged content."""
        if body.get("kind") != _STOP_KIND:
            return None
        try:
            lead = cast("dict[str, Any]", body["lead"])
            incarnation = body.get("incarnation")
            return cls(
                str(body["id"]),
                str(body["target"]),
                body.get("now") is True,
                LeadProcess(str(lead["session"]), int(lead["pid"]), str(lead["since"])),
                incarnation if isinstance(incarnation, int) else None,
            )
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def whole_team(self) -> bool:
        """True when the whole team is to stop, the lead too."""
        return self.target == LEAD

    def open_in(self, store: RequestStore, within_s: float) -> None:
        """Open the request. `within_s`: seconds that the requester waits for an acknowledgement. Raises
        StorageError.
        """
        store.open(
            self.id,
            {
                "kind": _STOP_KIND,
                "requester": USER,
                "target": self.target,
                "incarnation": self.incarnation,
                "now": self.now,
                "lead": {"session": self.lead.session, "pid": self.lead.pid, "since": self.lead.since},
                "opened_at": now_ms(),
                "deadline": now_ms() + int(within_s * 1000),
            },
        )

    def withdraw(self, store: RequestStore) -> None:
        """Close the request, so that it is not carried out later."""
        with suppress(TeamwrightError):
            store.answer(self.id, stop_answer(False, "withdrawn by the sender") | {"by": USER})
            store.retire(self.id)
        with suppress(OSError):
            acknowledgement_path(store, self.id).unlink(missing_ok=True)


def open_stops(store: RequestStore) -> list[StopRequest]:
    """Return the stop requests without an answer, the oldest first. Raises StorageError."""
    return [one for body in store.open_requests() if (one := StopRequest.parse(body)) is not None]


def stop_answer(
    approve: bool, reason: str, *, ended: Sequence[str] = (), handed_back: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the answer of the lead's process: the stopped members, and the ids of the tasks that were released."""
    return {
        "approve": approve,
        "reason": reason,
        "by": LEAD,
        "at": now_ms(),
        "ended": list(ended),
        "handed_back": list(handed_back),
    }


def acknowledgement_path(store: RequestStore, request_id: str) -> Path:
    """Return the file that acknowledges the request, and contains the time limit of its answer."""
    return store.directory / f"{file_stem(request_id)}.taken"


def acknowledge(store: RequestStore, request_id: str, within_s: float) -> None:
    """Acknowledge the request: an answer follows within that many seconds. Raises StorageError."""
    path = acknowledgement_path(store, request_id)
    body = {"until": now_ms() + int(within_s * 1000), "pid": os.getpid()}
    try:
        write_new(path, json.dumps(body).encode())
    except OSError as problem:
        raise storage_error(problem, path) from problem


def acknowledged_for_s(store: RequestStore, request_id: str) -> float | None:
    """Return how many seconds an answer may still take; None before the acknowledgement."""
    try:
        until = int(cast("dict[str, Any]", json.loads(acknowledgement_path(store, request_id).read_bytes()))["until"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return max(0.0, (until - now_ms()) / 1000)
