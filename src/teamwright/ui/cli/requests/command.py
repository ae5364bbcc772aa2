"""`teamwright requests`: what waits for a person in any team or session of this user; `allow` and `deny` answer it.

A request is shown as its own terminal shows it. Knows requests through `app`; what an answer does is decided where
somebody asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from teamwright.app.inspect import home_at
from teamwright.app.looking.asked import await_request, waiting_requests
from teamwright.app.requests import OpenRequest, open_requests
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.request_events import RequestAnswer
from teamwright.ui.asked import answer_command, deny_command
from teamwright.ui.cli.flags import seconds
from teamwright.ui.cli.looking import ago, json_flag
from teamwright.ui.cli.output import one_line, plain, say, say_json
from teamwright.ui.cli.place import place_of
from teamwright.ui.cli.requests.answering import UNCHANGED, Given, about, as_event, give, open_request
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.offers import PLACES, offers_of
from teamwright.ui.terminal.questions import request_lines

ANSWERS = frozenset({"allow", "deny"})
"""The commands below this one."""


class _Optional(click.Group):
    """A group whose `--wait` may stand without a number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click: a time may follow, a command is none."""
        return super().parse_args(ctx, _valued(args, "--wait", lambda word: word[0] != "-" and word not in ANSWERS, ""))


class _OptionalPlace(click.Command):
    """A command whose `--always` may stand without a place: what follows it is the request's id then."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click: a place may follow, an id is none."""
        return super().parse_args(ctx, _valued(args, "--always", PLACES.__contains__, "session"))


@click.group(cls=_Optional, invoke_without_command=True)
@click.option("--wait", is_flag=False, flag_value="", metavar="[TIME]", help="Wait for a request; at most TIME.")
@json_flag
@click.pass_context
def requests(ctx: click.Context, /, wait: str | None, as_json: bool) -> int:
    """What waits for you, in all teams and sessions: who asks, the whole command or diff, and what you may answer."""
    if ctx.invoked_subcommand is not None:
        if wait is not None:
            raise UsageError("usage", f"--wait does not go with {ctx.invoked_subcommand}", note=UNCHANGED)
        return 0
    root = place_of(ctx).home
    found = waiting_requests(home_at(root)) if wait is None else _waited(root, wait)
    if as_json:
        say_json([_object(one) for one in found])
        return 0
    for number, one in enumerate(found):
        for line in [*([""] if number else []), *lines_of(one)]:
            say(line)
    if not found:
        say("No request is open.")
    if wait is None:
        _say_left(root)
    return 0


@requests.command(cls=_OptionalPlace)
@click.argument("id")
@click.option(
    "--always",
    is_flag=False,
    flag_value="session",
    metavar="[PLACE]",
    help="Keep the rule: session (if nothing is said), local, project or user.",
)
@click.option("--grant", "keys", multiple=True, metavar="KEY", help="Grant a suggestion too, by its key.")
@click.option("--input", "source", metavar="FILE", help="Run this JSON object in the place of the input; - is stdin.")
@click.option("--answer", metavar="TEXT", help="The answer to a question: words, or the number of an option.")
@json_flag
@click.pass_context
def allow(ctx: click.Context, /, id: str, as_json: bool, **how: Any) -> int:
    """Let it run, answer a question, approve a plan. ID may be a beginning, also of the last part alone."""
    place = place_of(ctx)
    request = open_request(place.home, id)
    given = Given(**how)
    answer = RequestAnswer(verdict="allow", text=given.answer or "")
    if request is not None:
        answer = given.of_question(request) if request.kind == "question" else given.of_call(place, request)
    return _done(give(place.home, id if request is None else request.id, answer), "allow", as_json=as_json)


@requests.command()
@click.argument("id")
@click.option("--reason", metavar="TEXT", default="", help="Reason for the agent; for a plan, the changes it needs.")
@json_flag
@click.pass_context
def deny(ctx: click.Context, /, id: str, reason: str, as_json: bool) -> int:
    """Refuse it, with a reason. A plan goes back with the reason as feedback."""
    root = place_of(ctx).home
    request = open_request(root, id)
    answer = RequestAnswer(verdict="deny", text=reason)
    return _done(give(root, id if request is None else request.id, answer), "deny", as_json=as_json)


def _done(request: OpenRequest, verdict: str, *, as_json: bool) -> int:
    """Say what was answered."""
    if as_json:
        say_json({"id": request.id, "verdict": verdict})
    else:
        say(f"{'allowed' if verdict == 'allow' else 'denied'}: {about(request)}")
    return 0


# ── what waits, as lines ─────────────────────────────────────────────────────────────────────────────────────


def lines_of(request: OpenRequest) -> list[str]:
    """The request as its terminal shows it, and the commands that answer it."""
    event = as_event(request)
    where = f"team {request.team}" if request.team else f"session {request.session[:8]}"
    facts = [
        ("from", f"{one_line(where)}, {ago(request.opened_at)}"),
        *([("also", "its lead was asked, and may answer")] if request.target != "user" else []),
        *((f"grant {offer.key}", offer.words) for offer in offers_of(event)),
        ("yes", answer_command(request.id, request.kind)),
        ("no", deny_command(request.id)),
    ]
    return [one_line(request.id), *request_lines(event, Narrator()), *(f"  {label:<7} {text}" for label, text in facts)]


def _object(request: OpenRequest) -> dict[str, Any]:
    left_out = {"box", "lives", "resume"}
    return {field.name: plain(getattr(request, field.name)) for field in fields(request) if field.name not in left_out}


def _say_left(root: str | None) -> None:
    """Requests of processes that are gone: nobody waits now, but somebody will ask again."""
    left = [one for one in open_requests(home_at(root)) if not one.lives]
    for resume in dict.fromkeys(one.resume for one in left):
        count = sum(one.resume == resume for one in left)
        say(f"{count} more {'was' if count == 1 else 'were'} left open by a process that is gone: {resume}")


def _waited(root: str | None, wait: str) -> list[OpenRequest]:
    limit = seconds(wait) if wait else None
    if wait and limit is None:
        raise UsageError("usage", f"--wait {wait!r} is not a time span", do=["write 90, 90s, 10m or 1h"])

    async def until() -> list[OpenRequest]:
        async with asyncio.timeout(limit):
            return await await_request(home_at(root))

    try:
        return asyncio.run(until())
    except TimeoutError:
        raise TeamwrightError("failed", f"no request came within {wait}", do=["teamwright status"]) from None


def _valued(args: list[str], flag: str, fits: Callable[[str], object], otherwise: str) -> list[str]:
    """The arguments with the flag joined to what follows, where that can be its value; else to this one."""
    out: list[str] = []
    for at, arg in enumerate(args):
        if arg == "--":
            return out + args[at:]
        if out[-1:] == [flag]:
            out[-1] = f"{flag}={arg if fits(arg) else otherwise}"
            if fits(arg):
                continue
        out.append(arg)
    return [*out[:-1], f"{flag}={otherwise}"] if out[-1:] == [flag] else out
