"""An answer from the command line: what the flags say, for the kind of request it is, and what became of it.

What cannot be an answer is refused before anything is changed. Knows requests through `app`; prints nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from teamwright.app.inspect import home_at
from teamwright.app.requests import OpenRequest, Outcome, answer_request, find_request
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.protocol.ids import nearest
from teamwright.protocol.request_events import RequestAnswer
from teamwright.protocol.values import dataclass
from teamwright.ui.asked import asked_for, closed_words
from teamwright.ui.cli.output import one_line
from teamwright.ui.cli.place import Place
from teamwright.ui.headless.progress import shown
from teamwright.ui.terminal.offers import PLACES, kept_in, offers_of
from teamwright.ui.terminal.questions import chosen

UNCHANGED = "nothing was changed"

LONGEST_INPUT = 10_000_000
"""Bytes of `--input` that are read at most."""


def as_event(request: OpenRequest) -> RequestOpened:
    """The request as the surfaces of its own process see it."""
    return RequestOpened(
        member=request.asker,
        at=request.opened_at,
        request=request.id,
        kind=request.kind,
        tool=request.tool,
        what=request.what,
        rule=request.rule,
        always=request.always,
        input=request.input,
        options=request.options,
        owner=request.owner,
        deadline=request.deadline,
        suggestions=request.suggestions,
    )


@dataclass(frozen=True, slots=True)
class Given:
    """What the flags of `allow` say."""

    always: str | None
    keys: tuple[str, ...]
    source: str | None
    answer: str | None

    def of_question(self, request: OpenRequest) -> RequestAnswer:
        """The answer to a question. Raises UsageError without one, and for what only calls have."""
        for flag, given in (("--always", self.always), ("--grant", self.keys), ("--input", self.source)):
            if given:
                raise _refused(f"{flag} is for calls, and this is a question", request)
        if not (self.answer or "").strip():
            options = ", ".join(f"{number} {one_line(label)}" for number, label in enumerate(request.options, 1))
            raise _refused("a question needs an answer", request, [("options", options[:300])] if options else [])
        return RequestAnswer(verdict="allow", text=chosen(request.options, (self.answer or "").strip()))

    def of_call(self, place: Place, request: OpenRequest) -> RequestAnswer:
        """A yes to a call or a plan, with what is granted. Raises UsageError for what is not offered."""
        if self.answer is not None:
            raise _refused("--answer is for questions, and this is none", request)
        if self.source is not None and request.kind != "permission":
            raise _refused("--input is for calls, and this is none", request)
        event = as_event(request)
        offers = {offer.key: offer.update for offer in offers_of(event)}
        for key in self.keys:
            if key not in offers:
                raise _refused(f"--grant {key!r} is not offered", request, [("offered", ", ".join(offers) or "none")])
        updates = [offers[key] for key in dict.fromkeys(self.keys)]
        if self.always is not None:
            if not request.always or request.kind != "permission":
                raise _refused("nothing could be kept for this one", request)
            if self.always != "session":
                updates.append(_kept(request, event, self.always))
        given = None if self.source is None else read_input(place, self.source)
        return RequestAnswer(verdict="allow", always=self.always == "session", input=given, updates=tuple(updates))


def read_input(place: Place, source: str) -> Mapping[str, Any]:
    """The JSON object in a file, or on stdin for `-`. Raises UsageError."""
    try:
        if source == "-":
            content = sys.stdin.buffer.read(LONGEST_INPUT + 1)
        else:
            with open(place.path(source), "rb") as file:
                content = file.read(LONGEST_INPUT + 1)
        if len(content) > LONGEST_INPUT:
            raise UsageError("usage", f"--input has more than {LONGEST_INPUT:,} bytes", note=UNCHANGED)
        value: object = json.loads(content)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise UsageError("usage", f"--input {source!r} cannot be read: {why}", note=UNCHANGED) from problem
    except (ValueError, RecursionError) as problem:
        raise UsageError("usage", f"--input is not JSON: {one_line(str(problem), 100)}", note=UNCHANGED) from problem
    if not isinstance(value, dict):
        raise UsageError(
            "usage", "--input is not a JSON object", do=['{"command": "git push --dry-run"}'], note=UNCHANGED
        )
    return cast("dict[str, Any]", value)


def open_request(root: str | None, id: str) -> OpenRequest | None:
    """The open request that is meant, to know its kind and what it offers. Raises UsageError when there are several."""
    found = find_request(home_at(root), id)
    if len(found) > 1:
        raise _several(id, [one.id for one in found])
    return found[0] if found else None


def _kept(request: OpenRequest, event: RequestOpened, always: str) -> Mapping[str, Any]:
    if always not in PLACES:
        close = nearest(always, PLACES)
        do = [f"did you mean {close}?"] if close else [f"--always {place}" for place in PLACES]
        raise UsageError("usage", f"--always {always!r} is no place", do=do, note=UNCHANGED)
    update = kept_in(event, always)
    if update is None:
        raise _refused("the rule can be kept for its session only", request)
    return update


def give(root: str | None, id: str, answer: RequestAnswer) -> OpenRequest:
    """Answer it; the request that is answered now. Raises TeamwrightError when the answer does not count."""
    outcome = answer_request(home_at(root), id, answer)
    if not outcome.counts or outcome.request is None:
        raise _not_taken(id, outcome)
    return outcome.request


def about(request: OpenRequest) -> str:
    """Who asks for what, on one line."""
    return f"{one_line(shown(request.asker))}: {asked_for(request.kind, request.tool, request.what)}"


def _not_taken(id: str, outcome: Outcome) -> TeamwrightError:
    """Why an answer did not count."""
    request = outcome.request
    if outcome.kind == "several":
        return _several(id, outcome.near)
    if outcome.kind == "unknown":
        shown = one_line(id, 80)
        return UsageError(
            "unknown-request",
            f'no request "{shown}" waits for an answer',
            do=[f"did you mean {outcome.near[0]}?"] if outcome.near else ["teamwright requests"],
            note=UNCHANGED,
        )
    asked = [("it asked", one_line(about(request), 200))] if request is not None else []
    name, do = request.id if request is not None else one_line(id, 80), list[str]()
    if outcome.kind == "gone":
        what = f"{name} is no longer open: the process that asked is gone"
        do = [request.resume] if request is not None else []
    elif outcome.kind == "expired":
        what = f"the time of {name} was up before, and it was denied"
    else:
        said = closed_words(RequestClosed(member="", request=name, verdict=outcome.verdict, by=outcome.by))
        what = f"{name} was answered before: {said}" + (f" ({one_line(outcome.text, 100)})" if outcome.text else "")
    return TeamwrightError("request-closed", what, looked_at=asked, do=do, note="your answer changed nothing")


def _several(id: str, ids: Sequence[str]) -> UsageError:
    known = ", ".join(ids[:4]) + (" …" if len(ids) > 4 else "")
    return UsageError(
        "usage", f"{len(ids)} requests begin with {one_line(id, 40)!r}", looked_at=[("open", known)], note=UNCHANGED
    )


def _refused(what: str, request: OpenRequest, facts: Sequence[tuple[str, str]] = ()) -> UsageError:
    asked = ("it asks", one_line(about(request), 200))
    return UsageError("usage", what, looked_at=[asked, *facts], do=["teamwright requests"], note=UNCHANGED)
