"""`teamwright doctor`: checks of this machine and configuration, and of the model. Exit code 1 when one fails."""

from __future__ import annotations

import asyncio
import os
import shlex
import textwrap
from pathlib import Path

import click

from teamwright.models.model_settings import ModelSettings
from teamwright.protocol.errors import UsageError
from teamwright.session.command_start import mask_secrets
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.output import WIDTH, json_flag, json_text, say, say_json, say_table
from teamwright.ui.cli.run_location import is_on_terminal, run_location
from teamwright.ui.display_text import one_line, pad
from teamwright.views.bug_report import LEFT_OUT, ReportPart, ReportScope, collect_parts, report_path, save_bug_report
from teamwright.views.doctor import SECTIONS, DoctorSubject, Finding, find_problems, models_settings
from teamwright.views.live_check_plan import USD_UNASKED, LiveCheckPlan, plan_live_check
from teamwright.views.live_check_report import report_json, report_text, save_report
from teamwright.views.model_live_check import LiveCheck, LiveCheckResult, perform_live_check

_CHECK_MARKS = {"ok": "✓", "failed": "✗", "not offered": "·", "not seen": "?", "not tried": "·"}


def run_live_check(subject: DoctorSubject, *, yes: bool, as_json: bool, report: Path | None) -> int:
    """Check the model with small real requests. Returns 0, or 1 when a check failed.

    `report` is a file for the report: JSON if its name ends in `.json`, else text. Raises CannotStart without a model,
    UsageError.
    """
    settings = models_settings(subject)
    plan = plan_live_check(subject.model, subject.env, settings)
    if report is not None:
        save_report(report, "")  # before any money is spent on it
    try:
        return _check_within_ceiling(plan, subject, settings, yes=yes, as_json=as_json, report=report)
    finally:
        if report is not None and not report.stat().st_size:
            report.unlink()


def _check_within_ceiling(
    plan: LiveCheckPlan,
    subject: DoctorSubject,
    settings: ModelSettings,
    *,
    yes: bool,
    as_json: bool,
    report: Path | None,
) -> int:
    if not as_json:
        _show_plan(plan)
    if plan.needs_consent and not yes and not _confirm(plan):
        say("Nothing was sent.")
        return 0
    trial = asyncio.run(perform_live_check(plan, subject.model, subject.env, settings))
    found = report_json(plan, trial, subject.env)
    if as_json:
        say_json(found)
    else:
        _show_result(trial)
    if report is not None:
        as_text = report.suffix.lower() != ".json"
        report.write_text(report_text(found) if as_text else json_text(found, indent=2) + "\n", "utf-8")
        if not as_json:
            say(f"The report has no key, path or address of yours: {report}")
    return 0 if trial.ok else 1


def _show_plan(plan: LiveCheckPlan) -> None:
    for label, value in (
        ("model", plan.card.name),
        ("address", plan.endpoint.display_address),
        ("key", plan.endpoint.display_key),
        ("sends", f"at most {_count(plan.ceiling.requests, 'request')}; nothing of yours is in them"),
        ("ceiling", _ceiling(plan)),
    ):
        say(f"  {pad(label, 12)} {one_line(value)}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _ceiling(plan: LiveCheckPlan) -> str:
    most = plan.ceiling
    tokens = f"{most.prompt_tokens:,} tokens in and {most.output_tokens:,} out"
    if most.usd is None:
        return f"at most {tokens}; the price of this model is not known"
    return f"nothing: it is free; {tokens}" if most.usd == 0 else f"at most {most.usd:.3f} USD: {tokens}"


def _confirm(plan: LiveCheckPlan) -> bool:
    if not is_on_terminal():
        most = (
            "may cost money, and its price is not known"
            if plan.ceiling.usd is None
            else f"may cost more than {USD_UNASKED:.2f} USD"
        )
        raise UsageError(
            "usage",
            f"this {most}, and no user is present to confirm",
            looked_at=[("model", plan.card.name), ("ceiling", _ceiling(plan))],
            do=[
                f"teamwright doctor --live --yes --model {plan.card.name}",
                "set the price of the model in your settings",
            ],
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
@click.option(
    "--live", is_flag=True, help="Try the model with a few small requests, within a ceiling that is said first."
)
@click.option("--yes", is_flag=True, help="With --live: do not ask when the ceiling is above 0.05 USD or not known.")
@click.option("--report", metavar="FILE", help="With --live: write a report that you can send (.json: as JSON).")
@click.option("--bundle", is_flag=False, flag_value="", metavar="[FILE]", help="Write a redacted zip for a bug report.")
@click.option("--at-terminal", is_flag=True, hidden=True, expose_value=False, callback=_note_terminal)
@json_flag
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    *,
    model: str | None,
    as_json: bool,
    live: bool,
    yes: bool,
    report: str | None,
    bundle: str | None,
) -> int:
    """Show what is found here: machine, model, members, repository, settings.

    Contacts only ports of this machine, and a database that is named. With --live it sends a few small requests to the
    model, after showing the most that they cost.
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
        debug=place.debug,
    )
    if yes and not live:
        raise UsageError("usage", "--yes needs --live", note="nothing was sent")
    if report is not None and not live:
        raise UsageError("usage", "--report needs --live", note="nothing was sent")
    if live and bundle is not None:
        raise UsageError("usage", "--live and --bundle exclude each other", note="nothing was sent")
    if bundle is not None:
        return write_bug_report(subject, place.resolve(bundle) if bundle else None, as_json=as_json)
    if live:
        target = place.resolve(report) if report else None
        return run_live_check(subject, yes=yes, as_json=as_json, report=target)
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
