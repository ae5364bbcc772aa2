"""Evidence about requests: open, or answered by one approver only.

Reads the files as they are, and leaves a damaged file in place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.requests.request_store import parse_file_stem
from teamwright.views.audit.log_evidence import LogEvidence
from teamwright.views.audit.mail_evidence import MailEvidence
from teamwright.views.audit.team_location import TeamLocation, entries

_ANSWER = ".answer.json"


class RequestEvidence(Struct, frozen=True):
    """The requests of a team. `open` wait for an answer; `twice` have two answers; `unasked` are answers without a
    request.
    """

    answered: int = 0
    open: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def judge_requests(place: TeamLocation, mail: MailEvidence, logs: LogEvidence) -> RequestEvidence:
    """Judge all requests of a team: its files, the answers in inboxes, and the log. Nothing is raised."""
    requests: set[str] = set()
    answers: dict[str, Any] = {}
    damaged: list[str] = []
    twice = {request for (_, request), ids in mail.answers.items() if len(ids) > 1}
    twice |= {request for request, times in logs.closed.items() if times > 1}
    for path in (*entries(place.requests), *entries(place.requests / "answered")):
        if path.suffix != ".json":
            continue
        body = _load(path)
        if body is None:
            damaged.append(f"{path} is not a whole request")
        id = _id(path)
        if not path.name.endswith(_ANSWER):
            requests.add(id)
        elif answers.setdefault(id, body) != body:
            twice.add(id)
    return RequestEvidence(
        answered=len(requests & answers.keys()),
        open=tuple(sorted(requests - answers.keys())),
        twice=tuple(sorted(twice)),
        unasked=tuple(sorted(answers.keys() - requests)),
        damaged=tuple(damaged),
    )


def _id(path: Path) -> str:
    return parse_file_stem(path.name.removesuffix(".json").removesuffix(".answer"))


def _load(path: Path) -> dict[str, Any] | None:
    try:
        value: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
