"""`teamwright demo`: a team of four reads a repository and reports; every number has a receipt.

Scripted unless `--model` is given: then the same job goes to a real model with reading tools only and a cap.
The script is demo.toml; nothing here computes anything that is reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.option("--repo", type=click.Path(path_type=Path), default=None, help="The repository (default: here).")
@click.option("--pace", type=click.IntRange(0, 60_000), default=None, metavar="MS", help="Pause before each reply.")
@click.option("--report", type=click.Path(path_type=Path), default=None, help="Write the report as Markdown.")
@click.option("--model", default=None, metavar="NAME", help="A real model instead of the script, capped at 1.00 USD.")
@click.option("--yes", is_flag=True, help="Do not ask before a real model is used.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", help="json: the result alone.")
@click.pass_context
def demo(ctx: click.Context, **given: Any) -> int:
    """A team reads a repository and reports what to read first. Needs no key and no network; writes nothing there."""
    from teamwright.ui.demo.show import Wish, show

    return show(Wish(home=ctx.meta.get("teamwright.place", {}).get("home"), **given))
