"""Stop requests as files: a process of the user asks the process that leads a team to stop a member or the team.

A stop request is bound to one process of the lead: a later process of the same session answers it without stopping
anything. Depends on request stores and leases.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.protocol.ids import LEAD
from teamwright.protocol.timestamps import now_ms
from teamwright.requests.request_store import RequestStore, file_stem
from teamwright.storage.atomic_write import storage_error, write_new

KIND = "stop"
USER = "user"
_PREFIX = "stop-"


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
        return cls(f"{_PREFIX}{now_ms()}-{secrets.token_hex(4)}@{target}", target, now, lead, incarnation)

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> StopRequest | None:
        """Return the request in a file; None for another kind, and for damaged content."""
        if body.get("kind") != KIND:
            return None
        try:
            lead, incarnation = cast("dict[str, Any]", body["lead"]), body.get("incarnation")
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
        lead = {"session": self.lead.session, "pid": self.lead.pid, "since": self.lead.since}
        store.open(
            self.id,
            {
                "kind": KIND,
                "requester": USER,
                "target": self.target,
                "incarnation": self.incarnation,
                "now": self.now,
                "lead": lead,
                "opened_at": now_ms(),
                "deadline": now_ms() + int(within_s * 1000),
            },
        )


def open_stops(store: RequestStore) -> list[StopRequest]:
    """Return the stop requests without an answer, the oldest first. Raises StorageError."""
    return [one for body in store.open_requests() if (one := StopRequest.parse(body)) is not None]


def stop_answer(
    approve: bool, reason: str, *, ended: Sequence[str] = (), handed_back: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the answer of the lead's process: the stopped members, and the ids of the tasks that were released."""
    facts = {"ended": list(ended), "handed_back": list(handed_back)}
    return {"approve": approve, "reason": reason, "by": LEAD, "at": now_ms(), **facts}


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
