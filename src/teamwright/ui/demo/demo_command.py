"""`teamwright demo`: a team of four reads a repository and reports; every number has a receipt.

The team is scripted by demo.toml unless `--model` is given. Then a real model gets the same prompt, with reading tools
only and a cap. This module computes no number of the report.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from teamwright.ui.cli.flags import parse_time_span
from teamwright.ui.cli.run_location import run_location


@click.command()
@click.option("--repo", default=None, metavar="DIR", help="The repository (default: here; outside git a sample).")
@click.option("--pace", type=click.IntRange(0, 60_000), default=None, metavar="MS", help="Pause before each reply.")
@click.option("--report", default=None, metavar="FILE", help="Write the report as Markdown, receipts included.")
@click.option("--model", default=None, metavar="NAME", help="A real model instead of the script, capped at 1.00 USD.")
@click.option("--backend", default=None, metavar="NAME", help="Where members run: in-process, tmux, detached, …")
@click.option("--panes", is_flag=True, help="Each member in a separate tmux pane; short for --backend tmux.")
@click.option("--yes", is_flag=True, help="Do not ask me: about a real model's cost, or for the answer of --ask.")
@click.option("--kill", is_flag=True, help="SIGKILL the whole program three times, resume it, and audit the files.")
@click.option(
    "--ask",
    type=click.Choice(["wait", "deny"]),
    is_flag=False,
    flag_value="wait",
    metavar="[wait|deny]",
    help="A sub-agent requests a call: a second terminal answers, or the policy denies it.",
)
@click.option(
    "--within", metavar="TIME", callback=parse_time_span, help="With --ask: how long the request waits (60s)."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", help="json: only the result.")
@click.pass_context
def demo(ctx: click.Context, /, repo: str | None, report: str | None, **options: Any) -> int:
    """Run a team that reads a repository and reports what to read first. Needs no key or network; changes no file."""
    place = run_location(ctx)
    directory = place.cwd if repo is None else place.resolve(repo)
    if Path(os.path.realpath(directory)) in Path(os.path.realpath(__file__)).parents:
        _write_no_compiled_files()  # the demo may read the repository that contains this package
    from teamwright.ui.demo.runner import DemoOptions, run_demo

    target = None if report is None else place.resolve(report)
    return run_demo(DemoOptions(directory, home=place.home, report=target, **options))


def _write_no_compiled_files() -> None:
    """Keep this process from writing .pyc files; member processes and killed processes get a variable for it."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
