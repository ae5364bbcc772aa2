"""`teamwright doctor`: checks of this machine and configuration, and of the model. Exit code 1 when one fails."""

from __future__ import annotations

import asyncio
import os
import shlex
import textwrap
from pathlib import Path

import click

from teamwright.protocol.errors import UsageError
from teamwright.session.command_start import mask_secrets
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.output import WIDTH, json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import is_on_terminal, run_location
from teamwright.ui.display_text import one_line, pad
from teamwright.views.bug_report import LEFT_OUT, ReportPart, ReportScope, collect_parts, report_path, save_bug_report
from teamwright.views.doctor import SECTIONS, DoctorSubject, Finding, find_problems, models_settings
from teamwright.views.model_live_check import (
    LiveCheck,
    LiveCheckPlan,
    LiveCheckResult,
    perform_live_check,
    plan_live_check,
)

_CHECK_MARKS = {"ok": "✓", "failed": "✗", "not offered": "·", "not seen": "?", "not tried": "·"}


def run_live_check(subject: DoctorSubject, *, yes: bool, as_json: bool) -> int:
    """Check the model with one real request. Returns 0, or 1 when a check failed. Raises CannotStart without a model,
    UsageError.
    """
    settings = models_settings(subject)
    plan = plan_live_check(subject.model, subject.env, settings)
    if not as_json:
        _show_plan(plan)
    if not yes and not _confirm(plan):
        say("Nothing was sent.")
        return 0
    trial = asyncio.run(perform_live_check(plan, subject.model, subject.env, settings))
    if as_json:
        say_json(_live_to_json(plan, trial))
    else:
        _show_result(trial)
    return 0 if trial.ok else 1


def _show_plan(plan: LiveCheckPlan) -> None:
    for label, value in (
        ("model", plan.card.name),
        ("address", plan.endpoint.display_address),
        ("key", plan.endpoint.display_key),
        (
            "sends",
            f"{_count(plan.requests, 'request')}, about {plan.about_tokens:,} tokens; nothing of yours is in them",
        ),
        ("cost", _money(plan.about_usd)),
    ):
        say(f"  {pad(label, 12)} {one_line(value)}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _money(usd: float | None) -> str:
    if usd is None:
        return "unknown: this model's price is not known"
    return "nothing" if usd == 0 else f"about {max(usd, 0.001):.3f} USD by the price list, at most"


def _confirm(plan: LiveCheckPlan) -> bool:
    if not is_on_terminal():
        raise UsageError(
            "usage",
            "this asks a real model, and no user is present to confirm",
            looked_at=[("model", plan.card.name), ("cost", _money(plan.about_usd))],
            do=["teamwright doctor --live --yes"],
            note="nothing was sent",
        )
    return click.confirm("Send them", default=False)


def _show_result(trial: LiveCheck) -> None:
    say()
    for check in trial.checks:
        _show_check(check)
    say()
    used = trial.usage
    tokens = f"{used.prompt_tokens:,} tokens in, {used.output_tokens:,} out"
    money = "at an unknown price" if used.usd is None else f"{used.usd:.4f} USD"
    say(f"Used: {_count(used.requests, 'request')}, {tokens}, {money}.")
    failed = sum(check.state == "failed" for check in trial.checks)
    say("Nothing failed." if not failed else f"{failed} failed: the lines with {_CHECK_MARKS['failed']}")


def _show_check(check: LiveCheckResult) -> None:
    """Print a check uncut; a long text is wrapped, but text to be copied is not broken."""
    words = _masked_line(check.value)
    text = words if check.state == "ok" else f"{check.state}: {words}" if words else check.state
    head = f"{_CHECK_MARKS[check.state]} {pad(check.label, 12)} "
    for part in textwrap.wrap(text, WIDTH - 15, break_long_words=False, break_on_hyphens=False) or [""]:
        say((head + part).rstrip())
        head = " " * 15
    if check.do:
        say(f"{' ' * 15}→ {_masked_line(check.do)}")


def _masked_line(text: str) -> str:
    return mask_secrets(one_line(text), os.environ)


def _live_to_json(plan: LiveCheckPlan, trial: LiveCheck) -> dict[str, object]:
    return {
        "ok": trial.ok,
        "model": plan.card.name,
        "address": plan.endpoint.display_address,
        "key": plan.endpoint.display_key,
        "about_usd": plan.about_usd,
        "checks": [
            {"label": one.label, "state": one.state, "value": _masked_line(one.value), "do": _masked_line(one.do)}
            for one in trial.checks
        ],
        "usage": trial.usage.as_json() | {"requests": trial.usage.requests, "usd": trial.usage.usd},
    }


def write_bug_report(subject: DoctorSubject, target: Path | None, *, as_json: bool) -> int:
    """Write the bug report and list its contents. Raises UsageError for an existing file, StorageError."""
    parts = collect_parts(ReportScope(subject))
    path = report_path(subject.home, target)
    save_bug_report(path, parts, own=target is None)
    if as_json:
        rows = [{"name": part.name, "about": part.about, "bytes": part.size} for part in parts]
        say_json({"file": str(path), "parts": rows, "left_out": LEFT_OUT})
    else:
        _show_bug_report(path, parts)
    return 0


def _show_bug_report(path: Path, parts: list[ReportPart]) -> None:
    say_table(("in it", "bytes", "what"), [(part.name, f"{part.size:,}", part.about) for part in parts])
    say()
    for line in textwrap.wrap(f"Left out: {LEFT_OUT}.", WIDTH):
        say(line)
    say(f"Only you can read it: {path}")
    say("Nothing was sent. Look at it before you do:")
    say(f"  python3 -m zipfile -l {shlex.quote(str(path))}")
    say(f"  unzip -p {shlex.quote(str(path))} | less")


_AT_TERMINAL = "teamwright.doctor.at_terminal"
"""The key of the hidden flag: `/doctor` examines a session at a terminal, although its own output is a pipe."""

_FINDING_MARKS = {"ok": " ", "note": "·", "problem": "✗"}


def _note_terminal(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.meta[_AT_TERMINAL] = value


@click.command()
@click.option("--model", metavar="NAME", help="Check as for a run with this model.")
@click.option("--live", is_flag=True, help="Send one request to the model: key, streaming, a tool call, cache, window.")
@click.option("--yes", is_flag=True, help="With --live: send it without asking.")
@click.option("--bundle", is_flag=False, flag_value="", metavar="[FILE]", help="Write a redacted zip for a bug report.")
@click.option("--at-terminal", is_flag=True, hidden=True, expose_value=False, callback=_note_terminal)
@json_flag
@click.pass_context
def doctor(ctx: click.Context, /, model: str | None, as_json: bool, live: bool, yes: bool, bundle: str | None) -> int:
    """Show what is found here: machine, model, members, repository, settings.

    Contacts only ports of this machine, and a database that is named. With --live it sends one small request, after
    showing the cost.
    """
    place = run_location(ctx)
    subject = DoctorSubject(
        resolve_home(place.home, unreadable=True),
        place.cwd,
        os.environ,
        model,
        place.settings,
        place.database,
        at_terminal=is_on_terminal() or ctx.meta.get(_AT_TERMINAL, False),
    )
    if yes and not live:
        raise UsageError("usage", "--yes needs --live", note="nothing was sent")
    if live and bundle is not None:
        raise UsageError("usage", "--live and --bundle exclude each other", note="nothing was sent")
    if bundle is not None:
        return write_bug_report(subject, place.resolve(bundle) if bundle else None, as_json=as_json)
    if live:
        return run_live_check(subject, yes=yes, as_json=as_json)
    findings = find_problems(subject)
    problems = sum(finding.verdict == "problem" for finding in findings)
    if as_json:
        say_json({"ok": not problems, "findings": findings})
        return 1 if problems else 0
    for section in SECTIONS:
        rows = [finding for finding in findings if finding.section == section]
        if rows:
            say(section)
        for finding in rows:
            _show_finding(finding)
    say()
    say("Nothing is wrong." if not problems else f"{problems} to repair: the lines with {_FINDING_MARKS['problem']}")
    return 1 if problems else 0


def _show_finding(finding: Finding) -> None:
    """Print a finding uncut; a long text is wrapped, but text to be copied is not broken."""
    head = f"{_FINDING_MARKS[finding.verdict]} {pad(finding.label, 10)} "
    for part in textwrap.wrap(one_line(finding.value), WIDTH - 13, break_long_words=False, break_on_hyphens=False):
        say((head + part).rstrip())
        head = " " * 13
    if finding.do:
        say(f"  {'':<10} → {one_line(finding.do)}")
