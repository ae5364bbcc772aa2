"""The default caps of a headless run, which must end without a person watching it.

Caps of flags, a team file or a program have precedence; settings replace the defaults. Depends on budgets and options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from teamwright.models.model import ModelCard
from teamwright.protocol.budget import Budget
from teamwright.session.options import Options

HEADLESS = Budget(usd=20.0, tokens=5_000_000, turns=200, minutes=120)
"""The default caps. Model calls are the lead's; every other agent may make as many."""

_FLAGS = {
    "turns": "--max-turns",
    "tokens": "--max-tokens",
    "minutes": "--timeout",
    "usd": "--max-budget-usd",
}


def with_default_caps(options: Options, of_user: Budget) -> Options:
    """Return the options of a headless run with a cap of each kind; other options unchanged.

    `of_user` are the settings `budget.run`, which replace default caps.
    """
    if not options.headless:
        return options
    given = options.budget
    caps = given.with_defaults(of_user.with_defaults(HEADLESS))
    assumed = tuple(name for name in _FLAGS if not given.has(name))
    calls = options.calls_per_agent or max(HEADLESS.turns or 0, caps.turns or 0)
    return replace(options, budget=caps, assumed=assumed, calls_per_agent=calls)


def calls_per_agent(options: Options, said: Budget) -> int | None:
    """Return the cap on model calls of each agent but the lead, where no setting has one; None: no cap.

    A member process has the cap of its lead's process among its options.
    """
    return options.calls_per_agent if said.turns is None else None


def default_caps_line(budget: Budget, assumed: Sequence[str], card: ModelCard) -> str:
    """Return a line with the run's default caps and the flags that raise them; empty when all caps were given."""
    words = {
        "turns": f"{budget.turns or 0} model calls of the lead and of each agent",
        "tokens": f"{budget.tokens or 0:,} tokens",
        "minutes": f"{(budget.minutes or 0) / 60:g} h",
        "usd": f"{budget.usd or 0:g} USD" if card.usd_in else "",
    }
    shown = [name for name in assumed if words[name]]
    if not shown:
        return ""
    return f"default caps: {', '.join(words[one] for one in shown)} (raise: {' '.join(_FLAGS[one] for one in shown)})"
