"""Command shapes: commands as data, and click commands built from it that only parse.

Completion uses them, so that a Tab loads none of the real commands. `make generated` writes
`command_shape.json` from the real commands; a test compares them. Depends on click and the root command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import click

from teamwright.ui.cli.flags import to_kebab
from teamwright.ui.cli.root import Root

Shape: TypeAlias = dict[str, Any]
Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], "list[Any]"]
"""The function that returns completions for a parameter, with the arguments that click passes."""

SHAPE_FILE = Path(__file__).with_name("command_shape.json")


def command_shape(command: click.Command) -> Shape:
    """Return a command as plain data: its parameters and its subcommands (none for the root)."""
    shape: Shape = {"params": [_param_shape(param) for param in command.params if not _is_hidden(param)]}
    if isinstance(command, click.Group) and not isinstance(command, Root):
        shape["below"] = {name: command_shape(one) for name, one in command.commands.items()}
    if command.help and not isinstance(command, Root):
        shape["help"] = command.get_short_help_str(limit=70)
    return shape


def _is_hidden(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and param.hidden


def _param_shape(param: click.Parameter) -> Shape:
    shape: Shape = {"name": param.name, "names": list(param.opts)}
    if isinstance(param, click.Option):
        flag = param.is_flag or param.count
        known: Shape = {"flag": bool(flag), "multiple": param.multiple, "help": (param.help or "").partition("\n")[0]}
        known["bare"] = bool(getattr(param, "_flag_needs_value", False))
    else:
        known = {"argument": True, "nargs": param.nargs if param.nargs != 1 else 0}
    known |= {"metavar": param.metavar or "", "choices": _choices(param)}
    return shape | {name: value for name, value in known.items() if value}


def _choices(param: click.Parameter) -> list[str]:
    kind: object = param.type
    return [str(one) for one in cast("click.Choice[str]", kind).choices] if isinstance(kind, click.Choice) else []


def read_shapes() -> dict[str, Shape]:
    """Return the shapes of all commands by name; the root's has the name of the program."""
    return cast("dict[str, Shape]", json.loads(SHAPE_FILE.read_text("utf-8")))


def build_command(
    name: str, shape: Mapping[str, Any], complete: Complete, *, hidden_options: tuple[click.Option, ...] = ()
) -> click.Command:
    """Build a command that parses like this shape and does nothing. `hidden_options` are accepted, not suggested."""
    params = [_build_param(row, complete) for row in shape.get("params", ())]
    settings = {"help_option_names": ["-h", "--help"], "token_normalize_func": to_kebab}
    below = cast("dict[str, Shape]", shape.get("below") or {})
    short_help = shape.get("help")
    attributes: dict[str, Any] = {
        "params": [*params, *hidden_options],
        "short_help": short_help,
        "context_settings": settings,
    }
    if not below:
        return click.Command(name, **attributes)
    commands = {one: build_command(one, row, complete, hidden_options=hidden_options) for one, row in below.items()}
    return click.Group(name, commands=commands, invoke_without_command=True, **attributes)


def _build_param(row: Mapping[str, Any], complete: Complete) -> click.Parameter:
    choices: list[str] = row.get("choices") or []
    more: dict[str, Any] = {"metavar": row.get("metavar"), "shell_complete": complete}
    if choices:
        more["type"] = click.Choice(choices)
    if row.get("argument"):
        return click.Argument([row["name"]], required=False, nargs=row.get("nargs", 1), **more)
    words, help_text = [row["name"], *row["names"]], row.get("help")
    if row.get("flag"):
        return click.Option(words, is_flag=True, help=help_text)
    if row.get("bare"):
        more |= {"is_flag": False, "flag_value": ""}
    return click.Option(words, multiple=bool(row.get("multiple")), help=help_text, **more)
