"""`teamwright agents` and `agents show NAME`: the agent types of this directory, and the fields of each.

Depends on the package `views`.
"""

from __future__ import annotations

import json
from typing import Any

import click

from teamwright.config.plugins import PluginSource
from teamwright.protocol.errors import UsageError
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.flags import agent_flags
from teamwright.ui.cli.output import WIDTH, json_flag, say, say_facts, say_json, table_lines
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import clean, one_line
from teamwright.ui.invocation import parse_agents, parse_plugin_dirs
from teamwright.views.agent_types import (
    AgentTypeQuery,
    AgentTypesView,
    AgentTypeView,
    agent_types_view,
    find_agent_types,
)


@click.group(invoke_without_command=True, params=agent_flags())
@json_flag
@click.pass_context
def agents(ctx: click.Context, /, as_json: bool, **flags: Any) -> int:
    """List the agent types with source, model, tools and description. `show` prints one of them in full."""
    if ctx.invoked_subcommand is None:
        return _listed(ctx, flags, as_json=as_json)
    if as_json or any(flags.values()):
        behind = f"teamwright agents {ctx.invoked_subcommand} …"
        raise UsageError("usage", f"flags of {ctx.invoked_subcommand} are written after it", do=[behind])
    return 0


@agents.command("list", params=agent_flags())
@json_flag
@click.pass_context
def list_command(ctx: click.Context, /, as_json: bool, **flags: Any) -> int:
    """List every definition by precedence: of several with one name the first is used."""
    return _listed(ctx, flags, as_json=as_json)


def _listed(ctx: click.Context, flags: dict[str, Any], *, as_json: bool) -> int:
    found = agent_types_view(_query(ctx, flags))
    if as_json:
        say_json(found)
    else:
        _list(found)
    return 0


@agents.command("show", params=agent_flags())
@click.argument("name")
@json_flag
@click.pass_context
def show_command(ctx: click.Context, /, name: str, as_json: bool, **flags: Any) -> int:
    """Show the definition of NAME, and the definitions of that name that it replaces."""
    views = find_agent_types(_query(ctx, flags), name)
    if as_json:
        say_json(views)
        return 0
    for number, view in enumerate(views):
        if number:
            say()
        _show(view)
    return 0


def _query(ctx: click.Context, flags: dict[str, Any]) -> AgentTypeQuery:
    place = run_location(ctx)
    flag_agents = parse_agents(place, flags)
    plugins = tuple(map(PluginSource, parse_plugin_dirs(place, flags)))
    return AgentTypeQuery(resolve_home(place.home), place.cwd, place.settings, flag_agents, plugins)


def _list(found: AgentTypesView) -> None:
    head, *rows = table_lines(("type", "state", "model", "source", "tools"), [_row(view) for view in found.kinds])
    say(head)
    for row, view in zip(rows, found.kinds, strict=True):
        say(row)
        if view.description:
            say(f"  {one_line(view.description, WIDTH - 2)}")
    notes = [f"{_where(view)}: {view.why}" for view in found.kinds if view.state == "broken"]
    notes += [f"{_where(view)}: needs trust: {view.why}" for view in found.kinds if view.state == "needs trust"]
    notes += found.ignored
    if notes:
        say()
    for line in notes:
        say(one_line(line))


def _row(view: AgentTypeView) -> tuple[str, str, str, str, str]:
    """Return the cells of an agent type. Without a model it uses its caller's; without a list of tools, all tools."""
    if view.state == "broken":
        return one_line(view.name), view.state, "", one_line(view.source), ""
    tools: list[str] = view.fields.get("tools", ["all"])
    denied = ", ".join(view.fields.get("disallowedTools", []))
    tools_text = (", ".join(tools) or "none") + (f" but {denied}" if denied else "")
    return one_line(view.name), view.state, view.fields.get("model") or "inherit", one_line(view.source), tools_text


def _where(view: AgentTypeView) -> str:
    return view.file or view.source


def _show(view: AgentTypeView) -> None:
    say(f"{one_line(view.name)}  {view.state}" + (f" {one_line(view.why)}" if view.why else ""))
    say_facts([("source", view.source), ("file", view.file), ("description", view.description)])
    say_facts([(name, _plain(value)) for name, value in view.fields.items()], label=18)
    say_facts([("does not start", view.refused)], label=18)
    for text in view.warnings:
        say(f"warning: {one_line(text)}")
    if view.prompt:
        say()
        say(clean(view.prompt))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
