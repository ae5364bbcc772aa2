"""Commands about what teams do: `status` now, `log` event by event, `cost` by member, and `audit` of their files.

`status --watch` and `log --follow` continue until the end or Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import UsageError
from teamwright.protocol.event_json import to_json
from teamwright.protocol.events import MemberChanged, Progress, RunEnded, SessionOpened, TeamEvent
from teamwright.protocol.ids import display_name
from teamwright.protocol.pending_request import PendingRequest
from teamwright.protocol.usage import Usage
from teamwright.sandbox.policy import SandboxReport
from teamwright.saved.teams import find_team_view
from teamwright.session.process_state import ServerStatus
from teamwright.team_records.snapshots import TaskView, resolve_home
from teamwright.team_records.team_status import MemberStatus
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
    say_table,
    table_lines,
    task_rows,
)
from teamwright.ui.cli.run_location import RunLocation, named_database, open_access, open_home, run_location
from teamwright.ui.display_text import clean, cut, one_line, window_size
from teamwright.ui.event_text import answer_command, event_line, request_subject
from teamwright.ui.protocol_text import input_lines, output_lines
from teamwright.ui.terminal.styles import configured_terminal, is_plain_terminal
from teamwright.views.cost import CostRow, CostView, cost_of
from teamwright.views.follow_team import WriterGone, follow_log, watch_status
from teamwright.views.log import CallView, LogView, event_name, find_call, find_log, first_event_number, log_events
from teamwright.views.run_summary import duration
from teamwright.views.status import StatusView, status_views

if TYPE_CHECKING:
    from teamwright.saved.team_access import SavedTeamAccess

# ── status ─────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("team", required=False, metavar="[TEAM]")
@click.option("--watch", is_flag=True, help="Keep it up to date, until the team is deleted or its lead ends.")
@json_flag
@click.pass_context
def status(ctx: click.Context, /, team: str | None, watch: bool, as_json: bool) -> int:
    """Show members and their states, tasks, pending requests, messages and cost.

    Without TEAM: the running teams of this directory, else the newest.
    """
    place = run_location(ctx)
    if watch:
        return asyncio.run(_watch(place, team, as_json=as_json))
    views = status_views(open_home(place, team), place.cwd, team)
    if as_json:
        say_json([view.as_json() for view in views] if team is None else views[0].as_json())
    elif not views:
        say("No team yet. Sessions without one: teamwright sessions")
    for number, view in enumerate(() if as_json else views):
        for line in [*([""] if number else []), *status_lines(view, root=place.home)]:
            say(line)
    return 0


def status_lines(
    view: StatusView, *, root: str | None = None, width: int = WIDTH, most_tasks: int | None = None
) -> list[str]:
    """Return the lines of a team; `root` is the home that was named for this run.

    Open requests come first, then at most `most_tasks` open tasks; finished tasks are only counted.
    """
    now = time.time()
    lines = [*(cut(line, width) for line in _head(view)), *_sandbox_lines(view.sandbox, width)]
    if view.requests:
        lines += ["", *(line for one in view.requests for line in _request_lines(one, now, width, root))]
    if reviews := [_review_line(task, now, width) for task in view.tasks if task.review is not None]:
        lines += ["", *reviews]
    if rows := task_rows(task for task in view.tasks if task.open):
        more = len(rows) - len(rows[:most_tasks])
        lines += ["", *table_lines(("task", "status", "owner", "subject"), rows[:most_tasks], width=width)]
        lines += [f"and {more} more open tasks"] if more else []
    rows = [_member_row(member, now) for member in view.members]
    lines += ["", *table_lines(("member", "state", "last", "tasks", "unread", "waits for, or does"), rows, width=width)]
    used = [_member_usage(member) for member in view.members]
    lines += ["", *table_lines(("member", "turns", "tokens", "cost", "mode", "model"), used, width=width)]
    places = [(member.name, member.place, member.note) for member in view.members if member.has_own_process]
    if places:
        lines += ["", *table_lines(("member", "runs in", "see it, or why"), places, width=width)]
    if view.servers:
        served = [_server_row(server) for server in view.servers]
        lines += ["", *table_lines(("server", "state", "tools", "process", ""), served, width=width)]
    if view.completed:
        lines += ["", f"{view.completed} {'task is' if view.completed == 1 else 'tasks are'} completed"]
    return lines


def _head(view: StatusView) -> list[str]:
    pid = f", process {view.lead_pid}" if view.lead_pid else ""
    ended = f", the last run ended: {view.ended}" if view.ended else ""
    pairs = [
        ("team", f"{view.name} ({view.state}{pid}{ended})"),
        ("about", view.description),
        ("session", view.session),
        ("used", f"{view.tokens:,} tokens, {_money(view.usd)}"),
        ("unread", f"{view.unread} messages" if view.unread else ""),
        ("commits", ", ".join(f"{count} {state}" for state, count in view.commits.items())),
        ("resume", view.resume),
        ("damaged", view.damaged),
    ]
    return [f"{name:<9}{one_line(value)}" for name, value in pairs if value]


def _sandbox_lines(report: SandboxReport | None, width: int) -> list[str]:
    """Return what confines the session's commands, and each limit of it."""
    if report is None:
        return []
    pad = " " * 9
    lines = textwrap.wrap(one_line(report.summary), width, initial_indent=f"{'sandbox':<9}", subsequent_indent=pad)
    for limit in report.limits:
        lines += textwrap.wrap(one_line(limit), width, initial_indent=pad, subsequent_indent=pad)
    return lines


def _member_row(member: MemberStatus, now: float) -> tuple[str, ...]:
    tasks = " ".join(f"#{id}" for id in member.open_tasks[:4]) + (" …" if len(member.open_tasks) > 4 else "")
    unread = "damaged" if member.unread < 0 else str(member.unread or "")
    return member.name, member.state, _age(member.active, now), tasks, unread, member.reason


def _server_row(server: ServerStatus) -> tuple[str, ...]:
    tools = "not known" if server.tools is None else str(server.tools)
    return server.name, server.state, tools, str(server.pid or ""), server.problem


def _request_lines(request: PendingRequest, now: float, width: int, root: str | None) -> list[str]:
    """Return the lines of a request: agent, start and end of the wait, subject, and the answering command."""
    until = f", until {format_time(request.deadline)}" if request.deadline else ""
    by = f"{display_name(request.asker)}: " if request.owner not in {"", request.asker} else ""
    what = by + request_subject(request.kind, request.tool, request.what)
    kind = "plan" if request.kind == "plan_approval" else request.kind
    answerer = ", for the lead" if request.kind == "plan_approval" else ""
    whose = display_name(request.owner or request.asker)
    lines = [
        f"{request.id}  {kind} of {whose}{answerer}, {_age(request.opened_at, now)}{until}",
        what,
    ]
    labels = ("request", "")
    shown = [f"{label:<9}{one_line(line, width - 9)}" for label, line in zip(labels, lines, strict=True) if line]
    # A command is not cut: people paste it.
    return [*shown, *([f"{'':<9}{answer_command(request.id, request.kind, root)}"] if request.for_a_person else [])]


def _review_line(task: TaskView, now: float, width: int) -> str:
    """Return the line of a task in review: the work, the reviewer, the round, and the time since the question."""
    review = task.review
    assert review is not None, "the caller selects tasks in review"
    by = f"reviewed by {display_name(review.reviewer)}" if review.reviewer else "waits for a reviewer"
    age = f", asked {_age(review.since, now)}" if review.since else ""
    author = display_name(review.author) or "another program"
    line = f"#{task.id} of {author} {by}, round {review.round}{age}: {task.subject}"
    return f"{'review':<9}{one_line(line, width - 9)}"


def _member_usage(member: MemberStatus) -> tuple[str, ...]:
    model = f"{member.model}, effort {member.effort}" if member.effort else member.model
    return member.name, str(member.turn or ""), f"{member.tokens:,}", _money(member.usd), member.mode, model


def _age(at: float, now: float) -> str:
    return f"{duration(float(int(max(now - at, 0)))).replace('.0', '')} ago" if at else ""


def _money(usd: float | None) -> str:
    return str(Usage(usd=usd)).rpartition(", ")[2]


# ── status --watch ─────────────────────────────────────────────────────────────────────────────────────────────

REDRAW_S = 1.0
"""Seconds between two updates on a terminal, for the ages. Files are read only when they change."""

_LEAST_QUESTION = 30
"""The least width of the question before the command that answers it."""

MAX_DRAWN_TASKS = 20
"""The maximum number of open tasks on the screen, to leave rows for the members."""


async def _watch(where: RunLocation, team: str | None, *, as_json: bool) -> int:
    async with open_access(where, team) as access:
        views = status_views(access.home, where.cwd, team)
        if not views:
            say("No team yet.")
            return 0
        _require_one(views)
        is_plain = is_plain_terminal(configured_terminal(resolve_home(where.home)))
        screen = WatchScreen(where.home, as_json=as_json, draws=sys.stdout.isatty() and not as_json and not is_plain)
        return await _follow_status(access, views[0], screen)


def _require_one(views: Sequence[StatusView]) -> None:
    """Raise UsageError when several teams run here."""
    if len(views) > 1:
        names = [view.name for view in views]
        raise UsageError(
            "usage",
            f"{len(views)} teams live here: which one?",
            looked_at=[("teams", ", ".join(names)[:200])],
            do=[f"teamwright status {json.dumps(names[0])} --watch"],
        )


async def _follow_status(access: SavedTeamAccess, view: StatusView, screen: WatchScreen) -> int:
    ticking = asyncio.create_task(screen.tick()) if screen.draws else None
    async with aclosing(watch_status(access.home, view, is_local=access.is_local)) as changes:
        async for now in changes:
            screen.show(now.view)
            if now.over:
                screen.end(now.over, now.view)
    if ticking is not None:
        ticking.cancel()
    return 0


class WatchScreen:
    """The output of a watched team: redrawn on a terminal, else one line for each change."""

    def __init__(self, root: str | None, *, as_json: bool, draws: bool) -> None:
        self.root = root
        self.as_json = as_json
        self.draws = draws
        self._view: StatusView | None = None
        self._shown_lines: dict[str, str] = {}
        self._last: StatusView | None = None
        self._last_json: object = None

    def show(self, view: StatusView | None) -> None:
        """Show the current team; None when the team was deleted."""
        self._view = view
        if self.as_json:
            if view is not None:
                self._say_json(view)
        elif self.draws:
            self._draw()
        elif view is not None:
            self._say_changes(view)
        sys.stdout.flush()

    def _say_json(self, view: StatusView) -> None:
        """Print the team when it changed since the last line, with the tasks that finished since then."""
        now = replace(view, at=0.0).as_json()
        if now == self._last_json:
            return
        before = {task.id: task for task in self._last.tasks} if self._last is not None else None
        self._last = view
        self._last_json = now
        news = view.tasks if before is None else [t for t in view.tasks if t.open or before.get(t.id) != t]
        say_json_line(replace(view, tasks=tuple(news)).as_json())

    async def tick(self) -> None:
        """Redraw the ages, without reading files."""
        while True:
            await asyncio.sleep(REDRAW_S)
            self._draw()

    def end(self, why: str, view: StatusView | None) -> None:
        """Print the reason why watching ended."""
        last = {"over": why, "resume": view.resume if view is not None else ""}
        if self.as_json:
            say_json_line(last)
            return
        say(f"{format_time(time.time())}  {one_line(why)}")
        if last["resume"]:
            say(f"          resume: {last['resume']}")

    def _draw(self) -> None:
        if self._view is None:
            return
        size = window_size()
        lines = status_lines(self._view, root=self.root, width=max(size.columns, 40), most_tasks=MAX_DRAWN_TASKS)[
            : max(size.lines - 1, 5)
        ]
        sys.stdout.write("\x1b[H\x1b[2J" + "".join(f"{clean(line)}\n" for line in lines))
        sys.stdout.flush()

    def _say_changes(self, view: StatusView) -> None:
        """Print a line for each member, task and request that changed."""
        now = {f"member {m.name}": f"{m.name}  {m.state}" + (f": {m.reason}" if m.reason else "") for m in view.members}
        tasks = [task for task in view.tasks if task.open or f"task #{task.id}" in self._shown_lines]
        for number, state, owner, subject in task_rows(tasks):
            now[f"task {number}"] = f"{number}  {state}" + (f" ({owner})" if owner else "") + f": {subject}"
        for one in view.requests:
            how = f"  ({answer_command(one.id, one.kind, self.root)})" if one.for_a_person else ""
            question = f"{display_name(one.asker)}  asks: {one_line(request_subject(one.kind, one.tool, one.what))}"
            now[f"request {one.id}"] = cut(question, max(WIDTH - 10 - len(how), _LEAST_QUESTION)) + how
        if not self._shown_lines:
            say(f"{format_time(view.at)}  {one_line(view.name)}: {view.state}, process {view.lead_pid}")
        for key, line in now.items():
            if self._shown_lines.get(key) != line:
                text = f"{format_time(view.at)}  {one_line(line)}"
                say(text if key.startswith("request ") else cut(text, WIDTH))  # a command in it is not cut
        for key in [key for key in self._shown_lines if key not in now]:
            say(f"{format_time(view.at)}  {one_line(key)}: gone")
        self._shown_lines = now


# ── log ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        return asyncio.run(_follow_log(place, name, _EventFilter.from_flags(member, how), as_json=bool(how["as_json"])))
    found = find_log(open_home(place, name), place.cwd, name)
    if call_id is not None:
        call = find_call(found, call_id)
        say_json(call) if how["as_json"] else _show_call(call)
        return 0
    _show_log(found, _EventFilter.from_flags(member, how), as_json=bool(how["as_json"]))
    return 0


class _EventFilter(Struct, frozen=True):
    """A filter for events: by member, by start time, or the last N."""

    member: str | None
    since: float | None
    last: int | None

    @classmethod
    def from_flags(cls, member: str | None, how: Mapping[str, object]) -> _EventFilter:
        """Return the filter of the flags. Raises UsageError for a time that cannot be read."""
        since = how["since"]
        last = how["last"]
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


def _show_log(found: LogView, part: _EventFilter, *, as_json: bool) -> None:
    some = False
    for number, event in log_events(found, member=part.member, since=part.since, last=part.last):
        some = _say_event(number, event, as_json=as_json) or some
    if not some and not as_json:
        say(f"Nothing in {found.path}." if part == _EventFilter(None, None, None) else "Nothing that fits.")


def _say_event(number: int, event: TeamEvent, *, as_json: bool) -> bool:
    """Print an event; return True when it has a line."""
    if as_json:
        say_json_line({"n": number, **to_json(event)})
    elif (line := _log_line(event)) is not None:
        say(f"{format_time(event.at)}  {cut(clean(line).replace(chr(10), ' '), WIDTH - 10)}")
    else:
        return False
    return True


async def _follow_log(where: RunLocation, name: str | None, part: _EventFilter, *, as_json: bool) -> int:
    async with open_access(where, name) as access:
        found = find_log(access.home, where.cwd, name)
        return await _print_new(found, part, is_local=access.is_local, as_json=as_json)


async def _print_new(found: LogView, part: _EventFilter, *, is_local: bool, as_json: bool) -> int:
    """Print new events until the user interrupts. The end of a run is printed, and the log may continue with another
    run.
    """
    who = None if part.member is None else event_name(part.member)
    after = first_event_number(found, part.since, part.last, who)
    async with aclosing(follow_log(found.path, after, is_local=is_local)) as events:
        async for item in events:
            if isinstance(item, WriterGone):
                line = {"type": "quiet", "at": round(time.time(), 3), "why": item.why}
                say_json_line(line) if as_json else say(f"{format_time(time.time())}  {item.why}")
            elif (who is None or item[1].member.lower() == who) and item[1].at >= (part.since or 0.0):
                _say_event(*item, as_json=as_json)
            sys.stdout.flush()
    return 0


def _log_line(event: TeamEvent) -> str | None:
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


# ── cost ───────────────────────────────────────────────────────────────────────────────────────────────────────

_TOKEN_COLUMNS = ("tokens in", "cached", "out")


@click.command()
@click.argument("name", required=False, metavar="[TEAM or SESSION]")
@click.option("--since", metavar="TIME", help="Only from then on: 10m, 2h, 14:30 or a date and time.")
@json_flag
@click.pass_context
def cost(ctx: click.Context, /, name: str | None, since: str | None, as_json: bool) -> int:
    """Show what a team or a session used, by member, task and model. Newest session by default; also deleted teams."""
    place = run_location(ctx)
    view = cost_of(open_home(place, name), place.cwd, name, parse_moment(since) if since is not None else None)
    if as_json:
        say_json(view)
        return 0
    say_facts(
        [("team", view.team), ("session", view.session), ("since", format_datetime(view.since) if view.since else "")],
        label=8,
    )
    say()
    if view.empty:
        say("No model was called." if not view.since else "No model was called since then.")
        return 0
    _show_cost(view)
    return 0


def _show_cost(view: CostView) -> None:
    rows = [*_member_cost_rows(view.members), _cost_row("all", view.total)]
    say_table(("member", "model calls", "tool calls", *_TOKEN_COLUMNS, "cost"), rows)
    if view.tasks:
        say()
        say_table(("task", *_TOKEN_COLUMNS, "cost", "subject"), [_task_cost_row(line) for line in view.tasks])
    say()
    say_table(("model", *_TOKEN_COLUMNS, "cost"), [(line.name, *_usage_cells(line)) for line in view.models])
    if view.beside:
        say()
        rows = [(line.name, f"{line.model_calls:,}", *_usage_cells(line)) for line in view.beside]
        say_table(("of it for", "model calls", *_TOKEN_COLUMNS, "cost"), rows)
    if view.total.failed:
        say()
        say(_failed_text(view.total))


def _member_cost_rows(lines: Sequence[CostRow], depth: int = 0) -> Iterator[tuple[str, ...]]:
    for line in lines:
        yield _cost_row(f"{'  ' * (depth - 1)}└ {line.name}" if depth else line.name, line)
        yield from _member_cost_rows(line.below, depth + 1)


def _failed_text(line: CostRow) -> str:
    calls = "1 call that failed had" if line.failed == 1 else f"{line.failed:,} calls that failed had"
    return f"{calls} used {line.failed_tokens:,} tokens, {_money(line.failed_usd)}: counted above."


def _cost_row(name: str, line: CostRow) -> tuple[str, ...]:
    return name, f"{line.model_calls:,}", f"{line.tool_calls:,}", *_usage_cells(line)


def _task_cost_row(line: CostRow) -> tuple[str, ...]:
    return f"#{line.name}" if line.name else "none", *_usage_cells(line), line.subject


def _usage_cells(line: CostRow) -> tuple[str, ...]:
    cached = f"{line.cached:,}" if line.cached else ""
    return f"{line.tokens_in:,}", cached, f"{line.tokens_out:,}", _money(line.usd)


# ── audit ──────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("team", required=False, metavar="[TEAM]")
@json_flag
@click.pass_context
def audit(ctx: click.Context, /, team: str | None, as_json: bool) -> int:
    """Check messages, tasks, transcripts, processes and locks of a team by its files. Exit code 1 means a problem.

    Without TEAM: the running teams of this directory, else the newest.
    """
    from teamwright.views.audit.audit import audit as audit_team

    place = run_location(ctx)
    home = resolve_home(place.home) if named_database(place) is None else open_home(place, team)
    names = [team] if team is not None else [view.directory for view in status_views(home, place.cwd)]
    views = [find_team_view(home, name, archived=True) for name in names]
    found = [audit_team(home, view.directory, running=[view.lead_pid]) for view in views]
    if as_json:
        say_json([row for one in found for row in one.rows()])
    elif not found:
        say("No team yet.")
    for number, one in enumerate(() if as_json else found):
        for line in [*([""] if number else []), f"{one.team} ({one.state}), from the files alone", *one.report()]:
            say(line)
    return 0 if all(one.clean for one in found) else 1
