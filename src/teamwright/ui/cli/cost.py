"""`teamwright cost`: the usage of a team or a session, by member, task and model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from teamwright.protocol.usage import Usage
from teamwright.ui.cli.log import parse_moment
from teamwright.ui.cli.output import format_datetime, json_flag, say, say_facts, say_json, say_table
from teamwright.ui.cli.run_location import open_home, run_location
from teamwright.views.cost import CostRow, CostView, cost_of

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
    _show(view)
    return 0


def _show(view: CostView) -> None:
    rows = [*_members(view.members), _row("all", view.total)]
    say_table(("member", "model calls", "tool calls", *_TOKEN_COLUMNS, "cost"), rows)
    if view.tasks:
        say()
        say_table(("task", *_TOKEN_COLUMNS, "cost", "subject"), [_task(line) for line in view.tasks])
    say()
    say_table(("model", *_TOKEN_COLUMNS, "cost"), [(line.name, *_use(line)) for line in view.models])
    if view.total.failed:
        say()
        say(_failed_text(view.total))


def _members(lines: Sequence[CostRow], depth: int = 0) -> Iterator[tuple[str, ...]]:
    for line in lines:
        yield _row(f"{'  ' * (depth - 1)}└ {line.name}" if depth else line.name, line)
        yield from _members(line.below, depth + 1)


def _failed_text(line: CostRow) -> str:
    calls = "1 call that failed had" if line.failed == 1 else f"{line.failed:,} calls that failed had"
    money = str(Usage(usd=line.failed_usd)).rpartition(", ")[2]
    return f"{calls} used {line.failed_tokens:,} tokens, {money}: counted above."


def _row(name: str, line: CostRow) -> tuple[str, ...]:
    return name, f"{line.model_calls:,}", f"{line.tool_calls:,}", *_use(line)


def _task(line: CostRow) -> tuple[str, ...]:
    return f"#{line.name}" if line.name else "none", *_use(line), line.subject


def _use(line: CostRow) -> tuple[str, ...]:
    money = str(Usage(usd=line.usd)).rpartition(", ")[2]
    return f"{line.tokens_in:,}", f"{line.cached:,}" if line.cached else "", f"{line.tokens_out:,}", money
