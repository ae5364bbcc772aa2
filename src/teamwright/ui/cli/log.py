"""`teamwright log`: the events of a team or session, one a line; `--follow` continues, `--call` shows one tool call."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from contextlib import aclosing
from datetime import datetime

import click
from msgspec import Struct

from teamwright.protocol.errors import UsageError
from teamwright.protocol.event_json import to_json
from teamwright.protocol.events import MemberChanged, Progress, RunEnded, SessionOpened, TeamEvent
from teamwright.ui.cli.flags import parse_seconds
from teamwright.ui.cli.output import (
    WIDTH,
    format_datetime,
    format_time,
    json_flag,
    say,
    say_facts,
    say_json,
    say_json_line,
)
from teamwright.ui.cli.run_location import RunLocation, open_access, open_home, run_location
from teamwright.ui.display_text import clean, cut
from teamwright.ui.event_text import display_name, event_line
from teamwright.ui.protocol_text import input_lines, output_lines
from teamwright.views.log import CallView, LogView, event_name, find_call, find_log, first_event_number, log_events


@click.command()
@click.argument("name", required=False, metavar="[TEAM or SESSION]")
@click.option("--member", metavar="NAME", help="Only of this member.")
@click.option("--call", "call_id", metavar="ID", help="One tool call, e.g. c7: command, member, time, whole output.")
@click.option("--since", metavar="TIME", help="10m, 2h, 14:30 or a date and time.")
@click.option("-n", "--last", type=click.IntRange(min=0), metavar="N", help="Only the last N events that fit.")
@click.option("-f", "--follow", is_flag=True, help="From now on, or from --since or -n on, until Ctrl-C.")
@json_flag
@click.pass_context
def log(ctx: click.Context, /, name: str | None, member: str | None, call_id: str | None, **how: object) -> int:
    """List the events of a team (on disk, else the newest deleted one) or a session. Newest session by default.

    With --json one line per event.
    """
    place = run_location(ctx)
    if how["follow"] and call_id is None:
        return asyncio.run(_follow(place, name, _EventFilter.from_flags(member, how), as_json=bool(how["as_json"])))
    found = find_log(open_home(place, name), place.cwd, name)
    if call_id is not None:
        call = find_call(found, call_id)
        say_json(call) if how["as_json"] else _show_call(call)
        return 0
    _show(found, _EventFilter.from_flags(member, how), as_json=bool(how["as_json"]))
    return 0


class _EventFilter(Struct, frozen=True):
    """A filter for events: by member, by start time, or the last N."""

    member: str | None
    since: float | None
    last: int | None

    @classmethod
    def from_flags(cls, member: str | None, how: Mapping[str, object]) -> _EventFilter:
        """Return the filter of the flags. Raises UsageError for a time that cannot be read."""
        since, last = how["since"], how["last"]
        moment = parse_moment(since) if isinstance(since, str) else None
        return cls(member, moment, last if isinstance(last, int) else None)


def parse_moment(text: str, now: float | None = None) -> float:
    """Return a time in seconds since 1970 from an age, a time of today, or a date. Raises UsageError."""
    now = time.time() if now is None else now
    span = parse_seconds(text) if text[-1:] in "smh" else None
    if span is not None:
        return now - span
    try:
        if ":" in text and "-" not in text:
            today = datetime.fromtimestamp(now).strftime("%Y-%m-%d")
            return datetime.fromisoformat(f"{today}T{text.zfill(5)}").timestamp()
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(
            "usage", f"--since {text!r} is not a time", do=["write 10m, 2h, 14:30 or 2026-11-20T14:30"]
        ) from None


def _show(found: LogView, part: _EventFilter, *, as_json: bool) -> None:
    some = False
    for number, event in log_events(found, member=part.member, since=part.since, last=part.last):
        some = _say(number, event, as_json=as_json) or some
    if not some and not as_json:
        say(f"Nothing in {found.path}." if part == _EventFilter(None, None, None) else "Nothing that fits.")


def _say(number: int, event: TeamEvent, *, as_json: bool) -> bool:
    """Print an event; return True when it has a line."""
    if as_json:
        say_json_line({"n": number, **to_json(event)})
    elif (line := _line(event)) is not None:
        say(f"{format_time(event.at)}  {cut(clean(line).replace(chr(10), ' '), WIDTH - 10)}")
    else:
        return False
    return True


async def _follow(where: RunLocation, name: str | None, part: _EventFilter, *, as_json: bool) -> int:
    async with open_access(where, name) as access:
        found = find_log(access.home, where.cwd, name)
        return await _print_new(found, part, is_local=access.is_local, as_json=as_json)


async def _print_new(found: LogView, part: _EventFilter, *, is_local: bool, as_json: bool) -> int:
    """Print new events until the user interrupts. The end of a run is printed, and the log may continue with another
    run.
    """
    from teamwright.views.follow_team import WriterGone, follow_log

    who = None if part.member is None else event_name(part.member)
    after = first_event_number(found, part.since, part.last, who)
    async with aclosing(follow_log(found.path, after, is_local=is_local)) as events:
        async for item in events:
            if isinstance(item, WriterGone):
                line = {"type": "quiet", "at": round(time.time(), 3), "why": item.why}
                say_json_line(line) if as_json else say(f"{format_time(time.time())}  {item.why}")
            elif (who is None or item[1].member.lower() == who) and item[1].at >= (part.since or 0.0):
                _say(*item, as_json=as_json)
            sys.stdout.flush()
    return 0


def _line(event: TeamEvent) -> str | None:
    """Return the line that a run shows for an event; some events have a line only here."""
    who = f"{display_name(event.member):<12}"
    match event:
        case MemberChanged(state=state):
            return f"{who} {state}" + (f": {event.detail}" if event.detail else "")
        case SessionOpened(pid=pid):
            return f"{who} process {pid} drives the session from now on"
        case Progress(stalled=True):
            return f"{who} stalled: {event.doing or 'at work'} {event.what}".rstrip()
        case RunEnded():
            return f"{who} the run ended: {event.stop}" + (f" ({event.detail})" if event.detail else f", {event.usage}")
        case _:
            return event_line(event)


def _show_call(call: CallView) -> None:
    say_facts(
        [
            ("call", call.call),
            ("member", call.member),
            ("tool", call.tool),
            ("time", f"{format_datetime(call.at)}, {call.seconds:.2f} s, {call.outcome}"),
        ],
        label=8,
    )
    say()
    for line in input_lines(call.input):
        say(f"  {clean(line)}")
    say()
    for line in output_lines(call.output):
        say(clean(line))
    if not call.complete:
        say("… (the log holds no more of it, and no transcript has it)")
