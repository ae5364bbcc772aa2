"""The answers to shutdown requests in the request files: what survives the process of a member that agreed.

Depends on the requests of the team.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.protocol.ids import now_ms
from teamwright.requests.request_store import RequestStore

SHUT_DOWN = "shut down on request"
"""The cause of the end of a member that agreed to its shutdown."""

_SYSTEM = "system"


def is_shutdown_request(request: Mapping[str, Any], name: str, incarnation: int) -> bool:
    """Return True for a shutdown request to that incarnation of the member."""
    return (
        request.get("kind") == "shutdown"
        and str(request.get("target", "")).lower() == name.lower()
        and request.get("incarnation") == incarnation
    )


def shutdown_answer(approve: bool, reason: str, by: str = _SYSTEM) -> dict[str, Any]:
    """Return the answer to a shutdown request for its file."""
    return {"approve": approve, "reason": reason, "by": by, "at": now_ms()}


def find_agreement(requests: RequestStore, name: str, incarnation: int) -> str | None:
    """Return the shutdown request that this incarnation agreed to; empty when the system approved one for it.

    None without an approved request. Raises StorageError.
    """
    for request, answer in requests.answered_requests():
        if is_shutdown_request(request, name, incarnation) and answer.get("approve") is True:
            return str(request["id"]) if answer.get("by") != _SYSTEM else ""
    return None


def was_asked_to_stop(requests: RequestStore, name: str, incarnation: int) -> bool:
    """Return True when this incarnation has an open shutdown request, or an approved one. Raises StorageError."""
    open_requests = requests.open_requests()
    return (
        any(is_shutdown_request(request, name, incarnation) for request in open_requests)
        or find_agreement(requests, name, incarnation) is not None
    )
