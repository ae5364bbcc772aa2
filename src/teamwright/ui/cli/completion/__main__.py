"""Generate `command_shape.json` from the real commands: `python -m teamwright.ui.cli.completion`."""

from __future__ import annotations

import json

import click

from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.completion.command_shape import SHAPE_FILE, Shape, command_shape
from teamwright.ui.cli.root import root


def all_shapes() -> dict[str, Shape]:
    """Load all real commands and return their shapes."""
    shapes = {"teamwright": command_shape(root)}
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        if command is not None:
            shapes[name] = command_shape(command)
    return shapes


def render_shapes() -> str:
    """Return the contents for `command_shape.json`."""
    return json.dumps(all_shapes(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    SHAPE_FILE.write_text(render_shapes(), "utf-8")
