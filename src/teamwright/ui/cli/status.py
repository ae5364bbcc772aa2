"""`teamwright status`: who does what, what is open, what it cost; once, or kept up to date."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import click

from teamwright.app.cost_line import duration
from teamwright.app.inspect import home_at
from teamwright.app.looking.status import MemberStatus, RequestStatus, StatusView, status_views
from teamwright.app.serving.state import ServerStatus
from teamwright.protocol.errors import UsageError
from teamwright.protocol.usage import Usage
from teamwright.ui.asked import answer_command, asked_for
from teamwright.ui.cli.looking import clock, json_flag
from teamwright.ui.cli.output import WIDTH, clean, cut, one_line, say, say_json, say_json_line, table
from teamwright.ui.cli.place import Place, home_of_teams, place_of
from teamwright.ui.cli.tasks import task_rows
from teamwright.ui.window import window_size

REDRAW_S = 1.0
"""Between two drawings on a terminal: ages grow though nothing happens. Files are read when they change only."""

DRAWN_TASKS = 20
"""Open tasks that a drawing lists: the members have room below them."""


@click.command()
@click.argument("team", required=False, metavar="[TEAM]")
@click.option("--watch", is_flag=True, help="Keep it up to date, until the team is deleted or its lead ends.")
@json_flag
@click.pass_context
def status(ctx: click.Context, /, team: str | None, watch: bool, as_json: bool) -> int:
    """Members with their state and what they wait for, tasks, open requests, mail, cost.

    Without TEAM: those that live in this directory, else the newest.
    """
    place = place_of(ctx)
    views = status_views(home_of_teams(place, team), place.cwd, team)
    if watch:
        return _watch(place, views, as_json=as_json)
    if as_json:
        say_json(views if team is None else views[0])
    elif not views:
        say("No team yet. Sessions without one: teamwright sessions")
    for number, view in enumerate(() if as_json else views):
        for line in [*([""] if number else []), *lines_of(view)]:
            say(line)
    return 0


# ── a team as lines ──────────────────────────────────────────────────────────────────────────────────────────


def lines_of(
    view: StatusView, now: float | None = None, *, width: int = WIDTH, most_tasks: int | None = None
) -> list[str]:
    """The team as people read it; `now` in seconds since 1970.

    First what waits for an answer and what is open, at most so many tasks; of finished tasks the number.
    """
    now = time.time() if now is None else now
    lines = [cut(line, width) for line in _head(view)]
    if view.requests:
        lines += ["", *(line for one in view.requests for line in _asked(one, now, width))]
    if rows := task_rows(task for task in view.tasks if task.open):
        more = len(rows) - len(rows[:most_tasks])
        lines += ["", *table(("task", "status", "owner", "subject"), rows[:most_tasks], width=width)]
        lines += [f"and {more} more open tasks"] if more else []
    rows = [_row(member, now) for member in view.members]
    lines += ["", *table(("member", "state", "last", "tasks", "unread", "waits for, or does"), rows, width=width)]
    used = [_use(member) for member in view.members]
    lines += ["", *table(("member", "turns", "tokens", "cost", "mode", "model"), used, width=width)]
    places = [(member.name, member.place, member.note) for member in view.members if _is_elsewhere(member)]
    if places:
        lines += ["", *table(("member", "runs in", "see it, or why"), places, width=width)]
    if view.servers:
        served = [_server(server) for server in view.servers]
        lines += ["", *table(("server", "state", "tools", "process", ""), served, width=width)]
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
        ("go on", view.resume),
        ("damaged", view.damaged),
    ]
    return [f"{name:<9}{one_line(value)}" for name, value in pairs if value]


def _row(member: MemberStatus, now: float) -> tuple[str, ...]:
    tasks = " ".join(f"#{id}" for id in member.open_tasks[:4]) + (" …" if len(member.open_tasks) > 4 else "")
    unread = "damaged" if member.unread < 0 else str(member.unread or "")
    return member.name, member.state, _age(member.active, now), tasks, unread, member.on


def _is_elsewhere(member: MemberStatus) -> bool:
    return member.place not in {"", "in-process"}


def _server(server: ServerStatus) -> tuple[str, ...]:
    tools = "not known" if server.tools is None else str(server.tools)
    return server.name, server.state, tools, str(server.pid or ""), server.problem


def _asked(one: RequestStatus, now: float, width: int) -> list[str]:
    """A request: who waits, since and until when, for what, and what answers it."""
    until = f", until {clock(one.deadline)}" if one.deadline else ""
    by = f"{one.member}: " if one.owner not in {"", one.member} else ""
    what = by + asked_for(one.kind, one.tool, one.what)
    kind, whom = ("plan", ", for the lead") if one.kind == "plan_approval" else (one.kind, "")
    lines = [f"{one.id}  {kind} of {one.owner or one.member}{whom}, {_age(one.at, now)}{until}", what]
    if one.for_a_person:
        lines.append(answer_command(one.id, one.kind))
    labels = ["request", *[""] * 2]
    return [f"{label:<9}{one_line(line, width - 9)}" for label, line in zip(labels, lines, strict=False) if line]


def _use(member: MemberStatus) -> tuple[str, ...]:
    model = f"{member.model}, effort {member.effort}" if member.effort else member.model
    return member.name, str(member.turns or ""), f"{member.tokens:,}", _money(member.usd), member.mode, model


def _age(at: float, now: float) -> str:
    return f"{duration(float(int(max(now - at, 0)))).replace('.0', '')} ago" if at else ""


def _money(usd: float | None) -> str:
    return str(Usage(usd=usd)).rpartition(", ")[2]


# ── kept up to date ──────────────────────────────────────────────────────────────────────────────────────────


def _watch(place: Place, views: Sequence[StatusView], *, as_json: bool) -> int:
    if not views:
        say("No team yet.")
        return 0
    if len(views) > 1:
        names = [view.name for view in views]
        raise UsageError(
            "usage",
            f"{len(views)} teams live here: which one?",
            looked_at=[("teams", ", ".join(names)[:200])],
            do=[f"teamwright status {json.dumps(names[0])} --watch"],
        )
    screen = Screen(as_json=as_json, draws=sys.stdout.isatty() and not as_json)
    return asyncio.run(_keep(place, views[0], screen))


async def _keep(place: Place, view: StatusView, screen: Screen) -> int:
    from teamwright.app.looking.live import watch_status

    ticking = asyncio.create_task(screen.tick()) if screen.draws else None
    async with aclosing(watch_status(home_at(place.home), view)) as changes:
        async for now in changes:
            screen.show(now.view)
            if now.over:
                screen.end(now.over, now.view)
    if ticking is not None:
        ticking.cancel()
    return 0


class Screen:
    """Where a watched team is shown: drawn anew on a terminal, else a line for each thing that changed."""

    def __init__(self, *, as_json: bool, draws: bool) -> None:
        self.as_json = as_json
        self.draws = draws
        self._view: StatusView | None = None
        self._said: dict[str, str] = {}
        self._last: StatusView | None = None

    def show(self, view: StatusView | None) -> None:
        """The team as it is now; None when it is no more."""
        self._view = view
        if self.as_json:
            if view is not None:
                self._say_json(view)
        elif self.draws:
            self._draw()
        elif view is not None:
            self._tell(view)
        sys.stdout.flush()

    def _say_json(self, view: StatusView) -> None:
        """The team, when anything is another than in the line before; of finished tasks those that were not then."""
        now = replace(view, at=0.0)
        if now == self._last:
            return
        before = {task.id: task for task in self._last.tasks} if self._last is not None else None
        self._last = now
        news = view.tasks if before is None else [t for t in view.tasks if t.open or before.get(t.id) != t]
        say_json_line(replace(view, tasks=tuple(news)))

    async def tick(self) -> None:
        """Draw the ages anew, from what is known."""
        while True:
            await asyncio.sleep(REDRAW_S)
            self._draw()

    def end(self, why: str, view: StatusView | None) -> None:
        """The last words."""
        last = {"over": why, "resume": view.resume if view is not None else ""}
        if self.as_json:
            say_json_line(last)
            return
        say(f"{clock(time.time())}  {one_line(why)}")
        if last["resume"]:
            say(f"          go on: {last['resume']}")

    def _draw(self) -> None:
        if self._view is None:
            return
        size = window_size()
        lines = lines_of(self._view, width=max(size.columns, 40), most_tasks=DRAWN_TASKS)[: max(size.lines - 1, 5)]
        sys.stdout.write("\x1b[H\x1b[2J" + "".join(f"{clean(line)}\n" for line in lines))
        sys.stdout.flush()

    def _tell(self, view: StatusView) -> None:
        """A line for each member, task and request that is another than before."""
        now = {f"member {m.name}": f"{m.name}  {m.state}" + (f": {m.on}" if m.on else "") for m in view.members}
        shown = [task for task in view.tasks if task.open or f"task #{task.id}" in self._said]
        for number, state, owner, subject in task_rows(shown):
            now[f"task {number}"] = f"{number}  {state}" + (f" ({owner})" if owner else "") + f": {subject}"
        for one in view.requests:
            how = f"  ({answer_command(one.id, one.kind)})" if one.for_a_person else ""
            asked = f"{one.member}  asks: {one_line(asked_for(one.kind, one.tool, one.what))}"
            now[f"request {one.id}"] = cut(asked, WIDTH - 10 - len(how)) + how
        if not self._said:
            say(f"{clock(view.at)}  {one_line(view.name)}: {view.state}, process {view.lead_pid}")
        for key, line in now.items():
            if self._said.get(key) != line:
                say(cut(f"{clock(view.at)}  {one_line(line)}", WIDTH))
        for key in [key for key in self._said if key not in now]:
            say(f"{clock(view.at)}  {one_line(key)}: gone")
        self._said = now
