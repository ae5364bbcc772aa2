"""Answering a request from another process: the first answer counts, and whoever answers is told what became of it.

The answer is linked into place beside the request, then the asking process's bell is rung. Knows request files and
bells; does not know how the answer is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from teamwright.approvals.open_requests import match_requests, matches_id, open_requests, request_directories
from teamwright.approvals.request_record import ELSEWHERE, OpenRequest, answer_body, parse_answer, parse_request
from teamwright.config.trust.person_check import require_person
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, inbox_stem, nearest
from teamwright.protocol.request_events import RequestAnswer
from teamwright.protocol.values import dataclass
from teamwright.requests.request_store import RequestStore
from teamwright.storage.doorbell import ring
from teamwright.storage.paths import Home

FIRST, LATE, EXPIRED, GONE, UNKNOWN, SEVERAL = "first", "late", "expired", "gone", "unknown", "several"


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """What became of an answer. `kind` is

    - `first`: it counts;
    - `late`: somebody was first, `by` says who, `verdict` and `text` what;
    - `expired`: the deadline had passed, and denied it;
    - `gone`: nobody waits any more, the process that asked is gone; `request.resume` goes on with its session;
    - `unknown`: no request has that id; `near` has the nearest one;
    - `several`: more than one begins so; `near` has them.
    """

    kind: str
    request: OpenRequest | None = None
    by: str = ""
    verdict: str = ""
    text: str = ""
    near: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether the answer is the one that counts."""
        return self.kind == FIRST


def answer_request(home: Home, id: str, answer: RequestAnswer) -> AnswerOutcome:
    """Answer, as a person, the open request of that id, or of an id that begins so (or whose last part does).

    `answer.by` empty means another terminal. Raises UsageError (`not-for-agents`) in a command of an agent,
    StorageError when the disk refuses.
    """
    require_person(home, "answers requests", f"{answer.verdict} {id}"[:100])
    return answer_in_process(home, id, answer)


def answer_in_process(home: Home, id: str, answer: RequestAnswer) -> AnswerOutcome:
    """Answer a request as `answer_request`, for a person at the terminal of a process of ours."""
    found = match_requests(home, id)
    if not found:
        return _not_open(home, id, answer)
    if len(found) > 1:
        return AnswerOutcome(SEVERAL, near=tuple(one.id for one in found))
    request = found[0]
    if not request.lives:
        return AnswerOutcome(GONE, request)
    # That a deadline is over says whoever asked, by its answer: the clock may have jumped since it was written.
    box = RequestStore(request.box)
    with suppress(TeamRefused):  # it was answered, and retired, since we looked
        if box.answer(request.id, answer_body(answer, answer.by or ELSEWHERE)):
            ring(doorbell_of(request.box))
            return AnswerOutcome(FIRST, request, answer.by or ELSEWHERE, answer.verdict, answer.text)
    return _already_answered(box, request.id, answer, request) or AnswerOutcome(UNKNOWN, request)


def doorbell_of(box: Path) -> Path:
    """The bell of the process that looks at this directory of requests: of a team's lead, or of a session."""
    return box.parent / "bells" / inbox_stem(LEAD)


def _not_open(home: Home, id: str, answer: RequestAnswer) -> AnswerOutcome:
    """No open one: perhaps one that is over; else the nearest of those that are open."""
    for box in _boxes(home):
        known = [one for one in box.retired_ids() if matches_id(one, id)]
        if len(known) == 1 and (outcome := _already_answered(box, known[0], answer)) is not None:
            return outcome
    close = nearest(id, [one.id for one in open_requests(home)])
    return AnswerOutcome(UNKNOWN, near=(close,) if close else ())


def _already_answered(
    box: RequestStore, id: str, answer: RequestAnswer, request: OpenRequest | None = None
) -> AnswerOutcome | None:
    """Whose answer counts; ours is noted as a late one, for the log of the session that asked."""
    there = box.get_retired(id)
    given = there[1] if there is not None else box.get_answer(id)
    if given is None:
        return None
    if request is None and there is not None and (parsed := parse_request(there[0])) is not None:
        request = parsed[0]
    first = parse_answer(given)
    box.record_late_answer(id, answer_body(answer, answer.by or ELSEWHERE))
    ring(doorbell_of(box.directory))
    return AnswerOutcome(EXPIRED if first.by == "deadline" else LATE, request, first.by, first.verdict, first.text)


def _boxes(home: Home) -> Iterator[RequestStore]:
    """All directories of requests, those without an open one too."""
    yield from (RequestStore(place.box) for place in request_directories(home, empty=True))
