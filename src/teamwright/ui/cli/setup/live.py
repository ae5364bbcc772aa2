"""`teamwright doctor --live`: what would be sent is shown, a person agrees, what came of it is told."""

from __future__ import annotations

import asyncio
import os
import textwrap

import click

from teamwright.app.looking.doctor import Subject, models_settings
from teamwright.app.looking.system import mask_secrets
from teamwright.app.looking.trying import Check, Trial, TrialPlan, plan_trial, run_trial
from teamwright.protocol.errors import UsageError
from teamwright.ui.cli.invocation import on_a_terminal
from teamwright.ui.cli.output import WIDTH, one_line, pad, say, say_json

_MARKS = {"ok": "✓", "failed": "✗", "not offered": "·", "not seen": "?", "not tried": "·"}


def try_model(subject: Subject, *, yes: bool, as_json: bool) -> int:
    """Try the model once. 0, or 1 when something failed. Raises CannotStart when there is no model, UsageError."""
    settings = models_settings(subject)
    plan = plan_trial(subject.model, subject.env, settings)
    if not as_json:
        _show_plan(plan)
    if not yes and not _agreed(plan):
        say("Nothing was sent.")
        return 0
    trial = asyncio.run(run_trial(plan, subject.model, subject.env, settings))
    if as_json:
        say_json(_as_json(plan, trial))
    else:
        _show(trial)
    return 0 if trial.ok else 1


def _show_plan(plan: TrialPlan) -> None:
    for label, value in (
        ("model", plan.card.name),
        ("address", plan.endpoint.where),
        ("key", plan.endpoint.shown_key),
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


def _agreed(plan: TrialPlan) -> bool:
    if not on_a_terminal():
        raise UsageError(
            "usage",
            "this asks a real model, and no user is present to confirm",
            looked_at=[("model", plan.card.name), ("cost", _money(plan.about_usd))],
            do=["teamwright doctor --live --yes"],
            note="nothing was sent",
        )
    return click.confirm("Send them", default=False)


def _show(trial: Trial) -> None:
    say()
    for check in trial.checks:
        _show_check(check)
    say()
    used = trial.usage
    tokens = f"{used.prompt_tokens:,} tokens in, {used.output_tokens:,} out"
    money = "at an unknown price" if used.usd is None else f"{used.usd:.4f} USD"
    say(f"Used: {_count(used.requests, 'request')}, {tokens}, {money}.")
    failed = sum(check.state == "failed" for check in trial.checks)
    say("Nothing failed." if not failed else f"{failed} failed: the lines with {_MARKS['failed']}")


def _show_check(check: Check) -> None:
    """The check whole: a long one goes on in the next line, what is to be pasted is never broken."""
    words = _clean(check.value)
    said = words if check.state == "ok" else f"{check.state}: {words}" if words else check.state
    head = f"{_MARKS[check.state]} {pad(check.label, 12)} "
    for part in textwrap.wrap(said, WIDTH - 15, break_long_words=False, break_on_hyphens=False) or [""]:
        say((head + part).rstrip())
        head = " " * 15
    if check.do:
        say(f"{' ' * 15}→ {_clean(check.do)}")


def _clean(text: str) -> str:
    return mask_secrets(one_line(text), os.environ)


def _as_json(plan: TrialPlan, trial: Trial) -> dict[str, object]:
    return {
        "ok": trial.ok,
        "model": plan.card.name,
        "address": plan.endpoint.where,
        "key": plan.endpoint.shown_key,
        "about_usd": plan.about_usd,
        "checks": [
            {"label": one.label, "state": one.state, "value": _clean(one.value), "do": _clean(one.do)}
            for one in trial.checks
        ],
        "usage": trial.usage.as_json() | {"requests": trial.usage.requests, "usd": trial.usage.usd},
    }
