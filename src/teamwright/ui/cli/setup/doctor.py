"""`teamwright doctor`: what is found here, which model would be used, and why. Exit 1 when something is wrong."""

from __future__ import annotations

import os
import textwrap

import click

from teamwright.app.inspect import home_at
from teamwright.app.looking.doctor import SECTIONS, Finding, Subject, examine
from teamwright.protocol.errors import UsageError
from teamwright.ui.cli.invocation import on_a_terminal
from teamwright.ui.cli.looking import json_flag
from teamwright.ui.cli.output import WIDTH, one_line, pad, say, say_json
from teamwright.ui.cli.place import place_of

_MARKS = {"ok": " ", "note": "·", "problem": "✗"}


@click.command()
@click.option("--model", metavar="NAME", help="As if the run named this model.")
@click.option("--live", is_flag=True, help="Ask the model itself, once: key, streaming, a tool call, cache, window.")
@click.option("--yes", is_flag=True, help="With --live: send it without asking.")
@click.option("--bundle", is_flag=False, flag_value="", metavar="[FILE]", help="Write a redacted zip for a bug report.")
@json_flag
@click.pass_context
def doctor(ctx: click.Context, /, model: str | None, as_json: bool, live: bool, yes: bool, bundle: str | None) -> int:
    """What is found here: machine, model, members, repository, settings.

    Sends nothing, and asks own ports only; but with --live one small real request, after showing what it costs.
    """
    place = place_of(ctx)
    subject = Subject(
        home_at(place.home, unreadable=True), place.cwd, os.environ, model, place.settings, at_terminal=on_a_terminal()
    )
    if yes and not live:
        raise UsageError("usage", "--yes needs --live", note="nothing was sent")
    if live and bundle is not None:
        raise UsageError("usage", "--live and --bundle exclude each other", note="nothing was sent")
    if bundle is not None:
        from teamwright.ui.cli.setup.bundle import make_bundle

        return make_bundle(subject, place.path(bundle) if bundle else None, as_json=as_json)
    if live:
        from teamwright.ui.cli.setup.live import try_model

        return try_model(subject, yes=yes, as_json=as_json)
    findings = examine(subject)
    problems = sum(finding.verdict == "problem" for finding in findings)
    if as_json:
        say_json({"ok": not problems, "findings": findings})
        return 1 if problems else 0
    for section in SECTIONS:
        rows = [finding for finding in findings if finding.section == section]
        if rows:
            say(section)
        for finding in rows:
            _show(finding)
    say()
    say("Nothing is wrong." if not problems else f"{problems} to repair: the lines with {_MARKS['problem']}")
    return 1 if problems else 0


def _show(finding: Finding) -> None:
    """The finding whole: long ones go on in the next line, what is to be pasted is never broken."""
    head = f"{_MARKS[finding.verdict]} {pad(finding.label, 10)} "
    for part in textwrap.wrap(one_line(finding.value), WIDTH - 13, break_long_words=False, break_on_hyphens=False):
        say((head + part).rstrip())
        head = " " * 13
    if finding.do:
        say(f"  {'':<10} → {one_line(finding.do)}")
