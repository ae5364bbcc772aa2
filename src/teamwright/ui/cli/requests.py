"""`teamwright requests`: open requests of all teams and sessions of this user; `allow` and `deny` answer one.

A request looks the same as in the terminal of its session. The process that made the request applies the answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click
from msgspec import Struct
from msgspec.structs import asdict

from teamwright.approvals.request_files import match_requests, open_requests, wait_for_request, waiting_requests
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import RequestAnswer, RequestClosed, RequestOpened
from teamwright.protocol.ids import did_you_mean, display_name
from teamwright.protocol.pending_request import PendingRequest
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.flags import parse_seconds
from teamwright.ui.cli.output import format_age, json_flag, say, say_json, to_plain
from teamwright.ui.cli.run_location import RunLocation, named_database, open_access, open_home, run_location
from teamwright.ui.display_text import one_line
from teamwright.ui.event_text import answer_command, answer_text, deny_command, request_subject
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_lines import (
    RULE_DESTINATIONS,
    request_lines,
    rule_update,
    suggested_grants,
)

if TYPE_CHECKING:
    from teamwright.approvals.answer_from_outside import AnswerOutcome

UNCHANGED = "nothing was changed"

MAX_INPUT = 10_000_000
"""The maximum size of `--input`, in bytes."""


class AllowFlags(Struct, frozen=True):
    """The values of the flags of `allow`."""

    always: str | None
    keys: tuple[str, ...]
    source: str | None
    answer: str | None

    def answer_question(self, request: PendingRequest) -> RequestAnswer:
        """Return the answer to a question. Raises UsageError without an answer, and for flags that only calls have."""
        for flag, value in (("--always", self.always), ("--grant", self.keys), ("--input", self.source)):
            if value:
                raise _refused_error(f"{flag} is for calls, and this is a question", request)
        if not (self.answer or "").strip():
            options = ", ".join(f"{number} {one_line(label)}" for number, label in enumerate(request.options, 1))
            raise _refused_error("a question needs an answer", request, [("options", options[:300])] if options else [])
        from teamwright.ui.terminal.request_dialog import choose_options

        return RequestAnswer(verdict="allow", text=choose_options(request.options, (self.answer or "").strip()))

    def answer_call(self, where: RunLocation, request: PendingRequest) -> RequestAnswer:
        """Return the approval of a call or a plan, with its grants. Raises UsageError for an unknown grant."""
        if self.answer is not None:
            raise _refused_error("--answer is for questions, and this is none", request)
        if self.source is not None and request.kind != "permission":
            raise _refused_error("--input is for calls, and this is none", request)
        event = request.as_event()
        offers = {offer.key: offer.update for offer in suggested_grants(event)}
        for key in self.keys:
            if key not in offers:
                raise _refused_error(
                    f"--grant {key!r} is not offered", request, [("offered", ", ".join(offers) or "none")]
                )
        updates = [offers[key] for key in dict.fromkeys(self.keys)]
        if self.always is not None:
            if not request.always or request.kind != "permission":
                raise _refused_error("nothing could be kept for this one", request)
            if self.always != "session":
                updates.append(_stored_rule(request, event, self.always))
        changed_input = None if self.source is None else read_input(where, self.source)
        return RequestAnswer(
            verdict="allow", always=self.always == "session", input=changed_input, updates=tuple(updates)
        )


def read_input(where: RunLocation, source: str) -> Mapping[str, Any]:
    """Return the JSON object in a file, or on stdin for `-`. Raises UsageError."""
    try:
        if source == "-":
            content = sys.stdin.buffer.read(MAX_INPUT + 1)
        else:
            with open(where.resolve(source), "rb") as file:
                content = file.read(MAX_INPUT + 1)
        if len(content) > MAX_INPUT:
            raise UsageError("usage", f"--input has more than {MAX_INPUT:,} bytes", note=UNCHANGED)
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


def find_open_request(homes: Sequence[Home], id: str) -> PendingRequest | None:
    """Return the open request with this id, or None. Raises UsageError when several match."""
    found = [one for home in homes for one in match_requests(home, id)]
    if len(found) > 1:
        raise _ambiguous_error(id, [one.id for one in found])
    return found[0] if found else None


def _stored_rule(request: PendingRequest, event: RequestOpened, always: str) -> Mapping[str, Any]:
    if always not in RULE_DESTINATIONS:
        do = did_you_mean(always, RULE_DESTINATIONS, [f"--always {place}" for place in RULE_DESTINATIONS])
        raise UsageError("usage", f"--always {always!r} is not a scope", do=do, note=UNCHANGED)
    update = rule_update(event, always)
    if update is None:
        raise _refused_error("the rule can be kept for its session only", request)
    return update


async def submit_answer(
    place: RunLocation, id: str, verdict: str, make_answer: Callable[[PendingRequest | None], RequestAnswer]
) -> PendingRequest:
    """Answer a request of this home, or of the database that is named, and return it.

    Raises TeamwrightError when the answer was not accepted.
    """
    from teamwright.approvals.answer_from_outside import answer_request  # a list of requests answers none
    from teamwright.config.trust import require_person

    own = resolve_home(place.home)
    require_person(own, "answers requests", f"{verdict} {id}"[:100])
    async with open_access(place, None) as access:
        request = find_open_request([access.home] if access.is_local else [access.home, own], id)
        answer = make_answer(request)
        if request is None:
            raise _rejected_error(id, answer_request(access.home, id, answer))
        shared = request.box.is_relative_to(access.home.own)
        home = access.home if shared else own
        outcome = answer_request(home, request.id, answer)
        if outcome.counts and shared and not await access.deliver_answer(request):
            outcome = answer_request(home, request.id, answer)
        if not outcome.counts or outcome.request is None:
            raise _rejected_error(id, outcome)
        return outcome.request


def request_summary(request: PendingRequest) -> str:
    """Return the agent and the subject of a request on one line."""
    return f"{one_line(display_name(request.asker))}: {request_subject(request.kind, request.tool, request.what)}"


def _rejected_error(id: str, outcome: AnswerOutcome) -> TeamwrightError:
    """Return the error for an answer that was not accepted."""
    request = outcome.request
    if outcome.kind == "several":
        return _ambiguous_error(id, outcome.near)
    if outcome.kind == "unknown":
        request_id = one_line(id, 80)
        return UsageError(
            "unknown-request",
            f'no request "{request_id}" waits for an answer',
            do=[f"did you mean {outcome.near[0]}?"] if outcome.near else ["teamwright requests"],
            note=UNCHANGED,
        )
    facts = [("it asked", one_line(request_summary(request), 200))] if request is not None else []
    name = request.id if request is not None else one_line(id, 80)
    do = list[str]()
    if outcome.kind == "gone":
        what = f"{name} is no longer open: the process that asked is gone"
        do = [request.resume] if request is not None else []
    elif outcome.kind == "expired":
        what = f"the time of {name} was up before, and it was denied"
    else:
        text = answer_text(RequestClosed(member="", request=name, verdict=outcome.verdict, by=outcome.by))
        what = f"{name} was answered before: {text}" + (f" ({one_line(outcome.text, 100)})" if outcome.text else "")
    return TeamwrightError("request-closed", what, looked_at=facts, do=do, note="your answer changed nothing")


def _ambiguous_error(id: str, ids: Sequence[str]) -> UsageError:
    known = ", ".join(ids[:4]) + (" …" if len(ids) > 4 else "")
    return UsageError(
        "usage", f"{len(ids)} requests begin with {one_line(id, 40)!r}", looked_at=[("open", known)], note=UNCHANGED
    )


def _refused_error(what: str, request: PendingRequest, facts: Sequence[tuple[str, str]] = ()) -> UsageError:
    question = ("it asks", one_line(request_summary(request), 200))
    return UsageError("usage", what, looked_at=[question, *facts], do=["teamwright requests"], note=UNCHANGED)


ANSWER_COMMANDS = frozenset({"allow", "deny"})
"""The subcommands of `requests`."""


class _OptionalWait(click.Group):
    """A group whose `--wait` needs no value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does; `--wait` takes the next word when it is a time, not when it is a command."""
        return super().parse_args(
            ctx, _join_value(args, "--wait", lambda word: word[0] != "-" and word not in ANSWER_COMMANDS, "")
        )


class _OptionalDestination(click.Command):
    """A command whose `--always` needs no value: the next word may be the request's id."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does; `--always` takes the next word when it is a destination, not when it is an id."""
        return super().parse_args(ctx, _join_value(args, "--always", RULE_DESTINATIONS.__contains__, "session"))


@click.group(cls=_OptionalWait, invoke_without_command=True)
@click.option("--wait", is_flag=False, flag_value="", metavar="[TIME]", help="Wait for a request; at most TIME.")
@json_flag
@click.pass_context
def requests(ctx: click.Context, /, wait: str | None, as_json: bool) -> int:
    """List the pending requests of all teams and sessions: the agent, the whole command or diff, possible answers."""
    if ctx.invoked_subcommand is not None:
        if wait is not None:
            raise UsageError("usage", f"--wait does not go with {ctx.invoked_subcommand}", note=UNCHANGED)
        return 0
    place = run_location(ctx)
    homes = _homes(place)
    waiting = [one for home in homes for one in waiting_requests(home)]
    found = waiting if wait is None else _wait_for_request(place, wait)
    if as_json:
        say_json([_to_json(one) for one in found])
        return 0
    for number, one in enumerate(found):
        for line in [*([""] if number else []), *display_lines(one, place.home)]:
            say(line)
    if not found:
        say("No request is open.")
    if wait is None:
        _say_orphaned(homes)
    return 0


def _homes(place: RunLocation) -> list[Home]:
    """Return the homes with requests: this one, and a copy of the database that is named."""
    own = resolve_home(place.home)
    return [own] if named_database(place) is None else [own, open_home(place)]


@requests.command(cls=_OptionalDestination)
@click.argument("id")
@click.option(
    "--always",
    is_flag=False,
    flag_value="session",
    metavar="[PLACE]",
    help="Store the rule for the session (default), or in local, project or user.",
)
@click.option("--grant", "keys", multiple=True, metavar="KEY", help="Grant a suggestion too, by its key in the list.")
@click.option("--input", "source", metavar="FILE", help="Run with this JSON object as the input; - is stdin.")
@click.option("--answer", metavar="TEXT", help="The answer to a question: words, or the number of an option.")
@json_flag
@click.pass_context
def allow(ctx: click.Context, /, id: str, as_json: bool, **how: Any) -> int:
    """Allow a call, answer a question or approve a plan. ID may be its beginning, or that of its last part."""
    place = run_location(ctx)
    flags = AllowFlags(**how)

    def answer(request: PendingRequest | None) -> RequestAnswer:
        if request is None:
            return RequestAnswer(verdict="allow", text=flags.answer or "")
        return flags.answer_question(request) if request.kind == "question" else flags.answer_call(place, request)

    return _report_answer(asyncio.run(submit_answer(place, id, "allow", answer)), "allow", as_json=as_json)


@requests.command()
@click.argument("id")
@click.option("--reason", metavar="TEXT", default="", help="Reason for the agent; for a plan, the changes it needs.")
@json_flag
@click.pass_context
def deny(ctx: click.Context, /, id: str, reason: str, as_json: bool) -> int:
    """Deny a request, with a reason. A denied plan is returned with the reason as feedback."""
    answer = RequestAnswer(verdict="deny", text=reason)
    done = asyncio.run(submit_answer(run_location(ctx), id, "deny", lambda _request: answer))
    return _report_answer(done, "deny", as_json=as_json)


def _report_answer(request: PendingRequest, verdict: str, *, as_json: bool) -> int:
    if as_json:
        say_json({"id": request.id, "verdict": verdict})
    else:
        say(f"{'allowed' if verdict == 'allow' else 'denied'}: {request_summary(request)}")
        if request.waits_for_resume:
            say(f"the process that asked is gone; the answer counts when you resume: {request.resume}")
    return 0


# ── lines of open requests ────────────────────────────────────────────────────────────────────────────────


def display_lines(request: PendingRequest, home: str | None = None) -> list[str]:
    """Return the request as its terminal shows it, and the commands that answer it, with the named home."""
    event = request.as_event()
    where = f"team {request.team}" if request.team else f"session {request.session[:8]}"
    facts = [
        ("from", f"{one_line(where)}, {format_age(request.opened_at)}"),
        *([("also", "its lead was asked, and may answer")] if request.target != "user" else []),
        *((f"grant {offer.key}", offer.text) for offer in suggested_grants(event)),
        ("yes", answer_command(request.id, request.kind, home)),
        ("no", deny_command(request.id, home)),
    ]
    return [
        one_line(request.id),
        *request_lines(event, EventFormatter()),
        *(f"  {label:<7} {text}" for label, text in facts),
    ]


def _to_json(request: PendingRequest) -> dict[str, Any]:
    left_out = {"box", "is_alive", "resume", "responder", "waits_for_resume"}
    return {name: to_plain(value) for name, value in asdict(request).items() if name not in left_out}


def _say_orphaned(homes: Sequence[Home]) -> None:
    """Print the requests of processes that have ended: no agent waits now, but a resumed session asks again."""
    left = [one for home in homes for one in open_requests(home) if not one.is_alive]
    for resume in dict.fromkeys(one.resume for one in left):
        count = sum(one.resume == resume for one in left)
        say(f"{count} more {'was' if count == 1 else 'were'} left open by a process that is gone: {resume}")
    for one in left:
        if one.waits_for_resume:
            say(f"  {one_line(one.id)}  {one_line(request_summary(one), 120)}")


def _wait_for_request(place: RunLocation, wait: str) -> list[PendingRequest]:
    limit = parse_seconds(wait) if wait else None
    if wait and limit is None:
        raise UsageError("usage", f"--wait {wait!r} is not a time span", do=["write 90, 90s, 10m or 1h"])

    async def until() -> list[PendingRequest]:
        async with time_limit(limit), open_access(place, None) as access:
            return await _first_requests({access.home, resolve_home(place.home)})

    try:
        return asyncio.run(until())
    except TimeoutError:
        raise TeamwrightError("failed", f"no request came within {wait}", do=["teamwright status"]) from None


def _join_value(args: list[str], flag: str, is_value: Callable[[str], object], default: str) -> list[str]:
    """Join the flag with the next word when that can be its value, else with the default."""
    out: list[str] = []
    for at, arg in enumerate(args):
        if arg == "--":
            return out + args[at:]
        if out[-1:] == [flag]:
            out[-1] = f"{flag}={arg if is_value(arg) else default}"
            if is_value(arg):
                continue
        out.append(arg)
    return [*out[:-1], f"{flag}={default}"] if out[-1:] == [flag] else out


async def _first_requests(homes: Collection[Home]) -> list[PendingRequest]:
    """Return the open requests of the first home that has one."""
    waits = [asyncio.create_task(wait_for_request(home)) for home in homes]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return [request for wait in done for request in wait.result()]
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
