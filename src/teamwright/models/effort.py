"""Thinking effort: a level by name, or a budget of thinking in tokens, and the effort in a request.

A model's card contains the levels that it documents. Leaves the choice of an agent's effort to higher packages.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from msgspec import Meta

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import did_you_mean

if TYPE_CHECKING:
    from teamwright.models.model import ModelCard, Prefix

Effort: TypeAlias = str | int
"""A level, or a budget in tokens."""

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every level that a service documents, the lowest first; a model has some of them."""

MAX_BUDGET = 1_000_000

EXPECTED_TEXT = f"one of {', '.join(LEVELS)}, or a number of tokens"


def parse_effort(value: object) -> Effort:
    """Return the effort that a value names; a number may be a text. Raises ValueError."""
    if isinstance(value, str):
        text = value.strip().lower()
        if text in LEVELS:
            return text
        value = int(text) if text.isdecimal() and text.isascii() and len(text) < 8 else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_BUDGET:
        return value
    raise ValueError(EXPECTED_TEXT)


def parse_optional_effort(value: object) -> Effort | None:
    """Return the effort that a flag, a program or a call asks for; None stays None. Raises UsageError with the nearest
    level."""
    try:
        return None if value is None else parse_effort(value)
    except ValueError as problem:
        do = did_you_mean(str(value)[:80], LEVELS)
        what = f"{str(value)[:80]!r} is no effort: it is {problem}"
        raise UsageError("usage", what, do=do, note="nothing was started") from None


def is_effort(value: object) -> bool:
    """Return True when the value is a valid effort."""
    try:
        parse_effort(value)
    except ValueError:
        return False
    return True


EffortValue: TypeAlias = Annotated[
    Effort,
    Meta(
        extra={"expected": EXPECTED_TEXT, "sample": "high", "fits": is_effort},
        extra_json_schema={"anyOf": [{"enum": LEVELS}, {"type": "integer", "minimum": 1, "maximum": MAX_BUDGET}]},
    ),
]
"""The effort in a settings file. A level in capital letters is accepted too."""


def supports(card: ModelCard, effort: Effort) -> bool:
    """Return True when the model documents the effort."""
    if isinstance(effort, str):
        return effort in card.efforts
    return card.budget_from is not None and card.budget_from <= effort < card.max_output_tokens


def supported_effort(card: ModelCard, effort: Effort | None) -> Effort | None:
    """Return the effort where the model documents it, else None: then the model decides."""
    return effort if effort is not None and supports(card, effort) else None


_LEVEL_BUDGETS = (("low", 4_000), ("medium", 12_000), ("high", 32_000))
"""The most tokens of thinking for which a model without a budget uses this level; `max` is above them all."""


def effort_for_tokens(card: ModelCard, tokens: int) -> Effort | None:
    """Return the effort that is nearest to this many tokens of thinking; None where the model documents none.

    A budget below the model's smallest one is raised to it. 0 is the level `none`.
    """
    if tokens == 0:
        return "none" if "none" in card.efforts else None
    if card.budget_from is not None:
        return min(max(tokens, card.budget_from), card.max_output_tokens - 1)
    if not card.efforts:
        return None
    wished = LEVELS.index(next((level for level, most in _LEVEL_BUDGETS if tokens <= most), "max"))
    return min(card.efforts, key=lambda level: (abs(LEVELS.index(level) - wished), LEVELS.index(level)))


def describe_efforts(card: ModelCard) -> str:
    """Return the documented efforts of the model, for people."""
    known = [", ".join(card.efforts)] if card.efforts else []
    if card.budget_from is not None:
        known.append(f"a budget from {card.budget_from:,} tokens on")
    return " or ".join(known) or "none"


def prefix_effort(prefix: Prefix) -> Effort | None:
    """Return the effort in a prefix."""
    return _effort_in(prefix.end or prefix.start)


@lru_cache(maxsize=16)
def _effort_in(fields_at_end: bytes) -> Effort | None:
    """Return the effort in these fields; cached, because every new agent needs it and agents often share the bytes."""
    fields = cast("dict[str, Any]", json.loads(b"{" + fields_at_end + b"}"))
    level, budget = fields.get("output_config", {}).get("effort"), fields.get("thinking", {}).get("budget_tokens")
    return level if level is not None else budget
