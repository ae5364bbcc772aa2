"""`teamwright agents list` and `agents show NAME`: which kinds of agents there are, and what each is held to.

Knows views; decides nothing.
"""

from __future__ import annotations

import json
from typing import Any

import click

from teamwright.app.inspect import home_at
from teamwright.app.looking.agents import Asked, KindsView, KindView, kind_views, kinds_view
from teamwright.ui.cli.agents.given import agents_given, plugins_given
from teamwright.ui.cli.flags import agent_flags
from teamwright.ui.cli.looking import json_flag
from teamwright.ui.cli.output import clean, facts, one_line, say, say_json, say_table
from teamwright.ui.cli.place import place_of


@click.group()
def agents() -> None:
    """Kinds of agents: where each is defined, which one holds, what it is held to."""


@agents.command("list", params=agent_flags())
@json_flag
@click.pass_context
def list_command(ctx: click.Context, /, as_json: bool, **flags: Any) -> int:
    """Every definition, in the order that counts: of several with one name the first holds."""
    found = kinds_view(_asked(ctx, flags))
    if as_json:
        say_json(found)
        return 0
    _list(found)
    return 0


@agents.command("show", params=agent_flags())
@click.argument("name")
@json_flag
@click.pass_context
def show_command(ctx: click.Context, /, name: str, as_json: bool, **flags: Any) -> int:
    """What the definition of NAME says, and which others of that name it shadows."""
    views = kind_views(_asked(ctx, flags), name)
    if as_json:
        say_json(views)
        return 0
    for number, view in enumerate(views):
        if number:
            say()
        _show(view)
    return 0


def _asked(ctx: click.Context, flags: dict[str, Any]) -> Asked:
    place = place_of(ctx)
    given = agents_given(place, flags)
    return Asked(home_at(place.home), place.cwd, place.settings, given, plugins_given(place, flags))


def _list(found: KindsView) -> None:
    say_table(
        ("type", "state", "source", "description"),
        [(one_line(view.name), view.state, one_line(view.source), view.description) for view in found.kinds],
    )
    notes = [f"{_where(view)}: {view.why}" for view in found.kinds if view.state == "broken"]
    notes += [f"{_where(view)}: needs trust: {view.why}" for view in found.kinds if view.state == "needs trust"]
    notes += found.ignored
    if notes:
        say()
    for line in notes:
        say(one_line(line))


def _where(view: KindView) -> str:
    return view.file or view.source


def _show(view: KindView) -> None:
    say(f"{one_line(view.name)}  {view.state}" + (f" {one_line(view.why)}" if view.why else ""))
    facts([("source", view.source), ("file", view.file), ("description", view.description)])
    facts([(name, _plain(value)) for name, value in view.fields.items()], label=18)
    facts([("does not start", view.refused)], label=18)
    for text in view.warnings:
        say(f"warning: {one_line(text)}")
    if view.prompt:
        say()
        say(clean(view.prompt))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
