"""Answering a request from another process: the first answer counts, and whoever answers is told what became of it.

The answer is linked into place beside the request, then the asking process's bell is rung. Knows request files and
bells; does not know how the answer is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from teamwright.app.approver import require_person
from teamwright.app.requests.looking import find_request, means, open_requests, places
from teamwright.app.requests.record import ELSEWHERE, OpenRequest, answer_body, parse_answer, parse_request
from teamwright.mail.requests import RequestBox
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, inbox_stem, nearest
from teamwright.protocol.request_events import RequestAnswer
from teamwright.protocol.values import dataclass
from teamwright.storage.bell import ring
from teamwright.storage.paths import Home

FIRST, LATE, EXPIRED, GONE, UNKNOWN, SEVERAL = "first", "late", "expired", "gone", "unknown", "several"


@dataclass(frozen=True, slots=True)
class Outcome:
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


def answer_request(home: Home, id: str, answer: RequestAnswer) -> Outcome:
    """Answer, as a person, the open request of that id, or of an id that begins so (or whose last part does).

    `answer.by` empty means another terminal. Raises UsageError (`not-for-agents`) in a command of an agent,
    StorageError when the disk refuses.
    """
    require_person(home, "answers requests", f"{answer.verdict} {id}"[:100])
    return answer_in_process(home, id, answer)


def answer_in_process(home: Home, id: str, answer: RequestAnswer) -> Outcome:
    """Answer a request as `answer_request`, for a person at the terminal of a process of ours."""
    found = find_request(home, id)
    if not found:
        return _not_open(home, id, answer)
    if len(found) > 1:
        return Outcome(SEVERAL, near=tuple(one.id for one in found))
    request = found[0]
    if not request.lives:
        return Outcome(GONE, request)
    # That a deadline is over says whoever asked, by its answer: the clock may have jumped since it was written.
    box = RequestBox(request.box)
    with suppress(TeamRefused):  # it was answered, and retired, since we looked
        if box.answer(request.id, answer_body(answer, answer.by or ELSEWHERE)):
            ring(bell_of(request.box))
            return Outcome(FIRST, request, answer.by or ELSEWHERE, answer.verdict, answer.text)
    return _was_answered(box, request.id, answer, request) or Outcome(UNKNOWN, request)


def bell_of(box: Path) -> Path:
    """The bell of the process that looks at this directory of requests: of a team's lead, or of a session."""
    return box.parent / "bells" / inbox_stem(LEAD)


def _not_open(home: Home, id: str, answer: RequestAnswer) -> Outcome:
    """No open one: perhaps one that is over; else the nearest of those that are open."""
    for box in _boxes(home):
        known = [one for one in box.retired_ids() if means(one, id)]
        if len(known) == 1 and (outcome := _was_answered(box, known[0], answer)) is not None:
            return outcome
    close = nearest(id, [one.id for one in open_requests(home)])
    return Outcome(UNKNOWN, near=(close,) if close else ())


def _was_answered(
    box: RequestBox, id: str, answer: RequestAnswer, request: OpenRequest | None = None
) -> Outcome | None:
    """Whose answer counts; ours is noted as a late one, for the log of the session that asked."""
    there = box.retired(id)
    given = there[1] if there is not None else box.answer_of(id)
    if given is None:
        return None
    if request is None and there is not None and (parsed := parse_request(there[0])) is not None:
        request = parsed[0]
    first = parse_answer(given)
    box.note_late(id, answer_body(answer, answer.by or ELSEWHERE))
    ring(bell_of(box.directory))
    return Outcome(EXPIRED if first.by == "deadline" else LATE, request, first.by, first.verdict, first.text)


def _boxes(home: Home) -> Iterator[RequestBox]:
    """All directories of requests, those without an open one too."""
    yield from (RequestBox(place.box) for place in places(home, empty=True))
