"""`teamwright cost`: what a team or a session used, by member, task and model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from teamwright.app.looking.cost import CostLine, CostView, cost_of
from teamwright.protocol.usage import Usage
from teamwright.ui.cli.looking import json_flag, moment
from teamwright.ui.cli.output import facts, say, say_json, say_table
from teamwright.ui.cli.past.log import moment_of
from teamwright.ui.cli.place import home_of_teams, place_of

_USED = ("tokens in", "cached", "out")


@click.command()
@click.argument("name", required=False, metavar="[TEAM or SESSION]")
@click.option("--since", metavar="TIME", help="Only from then on: 10m, 2h, 14:30 or a date and time.")
@json_flag
@click.pass_context
def cost(ctx: click.Context, /, name: str | None, since: str | None, as_json: bool) -> int:
    """What a team (also a deleted one) or a session used: by member, task and model. Newest session by default."""
    place = place_of(ctx)
    view = cost_of(home_of_teams(place, name), place.cwd, name, moment_of(since) if since is not None else None)
    if as_json:
        say_json(view)
        return 0
    facts(
        [("team", view.team), ("session", view.session), ("since", moment(view.since) if view.since else "")], label=8
    )
    say()
    if view.empty:
        say("No model was called." if not view.since else "No model was called since then.")
        return 0
    _show(view)
    return 0


def _show(view: CostView) -> None:
    rows = [*_members(view.members), _row("all", view.total)]
    say_table(("member", "rounds", "calls", *_USED, "cost"), rows)
    if view.tasks:
        say()
        say_table(("task", *_USED, "cost", "subject"), [_task(line) for line in view.tasks])
    say()
    say_table(("model", *_USED, "cost"), [(line.name, *_use(line)) for line in view.models])
    if view.total.failed:
        say()
        say(_failed(view.total))


def _members(lines: Sequence[CostLine], depth: int = 0) -> Iterator[tuple[str, ...]]:
    for line in lines:
        yield _row(f"{'  ' * (depth - 1)}└ {line.name}" if depth else line.name, line)
        yield from _members(line.below, depth + 1)


def _failed(line: CostLine) -> str:
    calls = "1 call that failed had" if line.failed == 1 else f"{line.failed:,} calls that failed had"
    money = str(Usage(usd=line.failed_usd)).rpartition(", ")[2]
    return f"{calls} used {line.failed_tokens:,} tokens, {money}: counted above."


def _row(name: str, line: CostLine) -> tuple[str, ...]:
    return name, f"{line.rounds:,}", f"{line.calls:,}", *_use(line)


def _task(line: CostLine) -> tuple[str, ...]:
    return f"#{line.name}" if line.name else "none", *_use(line), line.subject


def _use(line: CostLine) -> tuple[str, ...]:
    money = str(Usage(usd=line.usd)).rpartition(", ")[2]
    return f"{line.tokens_in:,}", f"{line.cached:,}" if line.cached else "", f"{line.tokens_out:,}", money
