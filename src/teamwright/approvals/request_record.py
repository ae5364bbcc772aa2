"""Records of requests and answers as they are in their files.

Depends on the texts of requests and answers. Leaves places and readers of the files to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from teamwright.permissions.verdict import Question
from teamwright.protocol.clock import now_ms
from teamwright.protocol.pending_request import REQUEST_KINDS, PendingRequest
from teamwright.protocol.request_events import RequestAnswer
from teamwright.requests.stop_request import LeadProcess

ELSEWHERE = "another terminal"
"""The approver's name when another process of the user answered."""


def parse_request(body: Mapping[str, Any]) -> tuple[PendingRequest, LeadProcess] | None:
    """Return the request in a file and the incarnation of its process; None for other kinds and damaged files."""
    if body.get("kind") not in REQUEST_KINDS:
        return None
    try:
        lead = cast("dict[str, Any]", body["lead"])
        life = LeadProcess(str(lead["session"]), int(lead["pid"]), str(lead["since"]))
        made = PendingRequest(
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
            session=life.session,
            pid=life.pid,
        )
    except (KeyError, TypeError, ValueError):
        return None
    return made, life


def request_body(
    question: Question, suggestions: Sequence[Mapping[str, Any]], life: LeadProcess, incarnation: int | None
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
        "lead": {"session": life.session, "pid": life.pid, "since": life.since},
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
    given = body.get("input")
    return RequestAnswer(
        verdict="allow" if body.get("verdict") == "allow" else "deny",
        always=body.get("always") is True,
        text=str(body.get("text") or ""),
        input=None if given is None else _object(given),
        updates=tuple(_object(one) for one in _items(body.get("updates"))),
        by=str(body.get("by") or ELSEWHERE),
    )


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _seconds(value: object) -> float:
    return value / 1000 if isinstance(value, int | float) else 0.0
