"""Answers to pending requests from another process than the one that asked.

The answer is linked into place beside the request, then the doorbell of the asking process is rung. Only the first
answer counts. Depends on request files and doorbells.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from teamwright.approvals.request_files import (
    ELSEWHERE,
    answer_body,
    doorbell_of,
    match_requests,
    matches_id,
    open_requests,
    parse_answer,
    parse_request,
    request_directories,
)
from teamwright.config.trust import require_person
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import RequestAnswer
from teamwright.protocol.ids import nearest
from teamwright.protocol.pending_request import PendingRequest
from teamwright.requests.request_store import RequestStore
from teamwright.storage.doorbell import ring
from teamwright.storage.paths import Home

FIRST, KEPT, LATE, EXPIRED = "first", "kept", "late", "expired"
GONE, UNKNOWN, SEVERAL = "gone", "unknown", "several"


class AnswerOutcome(Struct, frozen=True):
    """The result of an answer to a request. `kind` is

    - `first`: the answer counts;
    - `kept`: the process that asked has exited; the answer counts when `request.resume` asks again;
    - `late`: an earlier answer counts: `by` gave it, with `verdict` and `text`;
    - `expired`: the deadline had passed, and the request was denied;
    - `gone`: the process that asked has exited, and the request ended with it; `request.resume` resumes its session;
    - `unknown`: no request has that id; `near` has the most similar id;
    - `several`: more than one id begins with the text; `near` has them.
    """

    kind: str
    request: PendingRequest | None = None
    by: str = ""
    verdict: str = ""
    text: str = ""
    near: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """True when this answer counts."""
        return self.kind in {FIRST, KEPT}


def answer_request(home: Home, id: str, answer: RequestAnswer) -> AnswerOutcome:
    """Answer the open request that an id, its beginning or the beginning of its last part names.

    The answer counts as a person's. An empty `answer.by` means another terminal. Raises UsageError (`not-for-agents`)
    in a command of an agent, StorageError when the disk refuses.
    """
    require_person(home, "answers requests", f"{answer.verdict} {id}"[:100])
    return answer_in_process(home, id, answer)


def answerable_requests(home: Home) -> list[PendingRequest]:
    """Return the requests without an answer in all processes of the user, oldest first, with methods that answer.

    Those of processes that have exited (`is_alive` False) are among them if an answer counts after a resume.
    """

    async def respond(id: str, answer: RequestAnswer) -> bool:
        return answer_request(home, id, answer).counts

    waiting = [one for one in open_requests(home) if one.is_alive or one.waits_for_resume]
    return [replace(one, responder=respond) for one in waiting]


def answer_in_process(home: Home, id: str, answer: RequestAnswer) -> AnswerOutcome:
    """Answer a request like `answer_request`, for a person at the terminal of a teamwright process."""
    found = match_requests(home, id)
    if not found:
        return _not_open(home, id, answer)
    if len(found) > 1:
        return AnswerOutcome(SEVERAL, near=tuple(one.id for one in found))
    request = found[0]
    if not request.is_alive and not request.waits_for_resume:
        return AnswerOutcome(GONE, request)
    # The asking process decides that a deadline has passed: the clock may have jumped since the request was written.
    box = RequestStore(request.box)
    with suppress(TeamRefused):  # answered and retired since it was listed
        if box.answer(request.id, answer_body(answer, answer.by or ELSEWHERE)):
            ring(doorbell_of(request.box))
            kind = FIRST if request.is_alive else KEPT
            return AnswerOutcome(kind, request, answer.by or ELSEWHERE, answer.verdict, answer.text)
    return _already_answered(box, request.id, answer, request) or AnswerOutcome(UNKNOWN, request)


def _not_open(home: Home, id: str, answer: RequestAnswer) -> AnswerOutcome:
    """Return the outcome for an id without an open request: its closed request, else the most similar open ids."""
    for place in request_directories(home, empty=True):
        box = RequestStore(place.box)
        known = [one for one in box.retired_ids() if matches_id(one, id)]
        if len(known) == 1 and (outcome := _already_answered(box, known[0], answer)) is not None:
            return outcome
    close = nearest(id, [one.id for one in open_requests(home)])
    return AnswerOutcome(UNKNOWN, near=(close,) if close else ())


def _already_answered(
    box: RequestStore, id: str, answer: RequestAnswer, request: PendingRequest | None = None
) -> AnswerOutcome | None:
    """Return the outcome with the answer that counts. Note this answer as late in the session's log."""
    there = box.get_retired(id)
    first_body = there[1] if there is not None else box.get_answer(id)
    if first_body is None:
        return None
    if request is None and there is not None and (parsed := parse_request(there[0])) is not None:
        request = parsed[0]
    first = parse_answer(first_body)
    box.record_late_answer(id, answer_body(answer, answer.by or ELSEWHERE))
    ring(doorbell_of(box.directory))
    return AnswerOutcome(EXPIRED if first.by == "deadline" else LATE, request, first.by, first.verdict, first.text)
