"""Write `shape.json` anew from the real commands: `python -m teamwright.ui.cli.completion`."""

from __future__ import annotations

import json

import click

from teamwright.ui.cli.completion.shape import FILE, Shape, shape_of
from teamwright.ui.cli.root import root
from teamwright.ui.cli.table import COMMANDS


def shapes() -> dict[str, Shape]:
    """The shapes of the real commands, all of which are loaded for it."""
    made = {"teamwright": shape_of(root)}
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        if command is not None:
            made[name] = shape_of(command)
    return made


def text() -> str:
    """What `shape.json` is to hold."""
    return json.dumps(shapes(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
