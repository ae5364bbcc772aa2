"""Write the files that are made from the commands, as a part of `make generated`.

These are `help.txt`, which `--help` prints, `command_shape.json`, which completion parses with, the page for users of
Claude Code, and the generated lines of the reference.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.completion.completer import SHAPE_FILE, Shape, command_shape
from teamwright.ui.cli.reference_pages import reference_pages
from teamwright.ui.cli.root import root
from teamwright.ui.equivalents_page import render_page
from teamwright.ui.prepared_help import HELP_FILE, WIDTH

COMING_FROM_PAGE = Path("docs/reference/coming-from.md")
"""The page, from the top of the repository, where `make` runs."""


def render_help() -> str:
    """Return the contents for `help.txt`: the help of the program, as click prints it in a wide terminal."""
    with root.make_context("teamwright", [], resilient_parsing=True, terminal_width=WIDTH - 2) as ctx:
        return ctx.get_help() + "\n"


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
    Path(HELP_FILE).write_text(render_help(), "utf-8")
    SHAPE_FILE.write_text(render_shapes(), "utf-8")
    COMING_FROM_PAGE.write_text(render_page(), "utf-8")
    for page, text in reference_pages(Path("docs/reference")).items():
        page.write_text(text, "utf-8")
