"""The summary line at the end of every run: time, members, turns, tokens, money, and the fullest context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.protocol.ids import display_name

if TYPE_CHECKING:
    from teamwright.session.result import MemberResult, Result


def cost_line(result: Result) -> str:
    """Return the line, e.g. `12.3 s · 3 members · 7 turns · 12,300 tokens in (9,000 cached), 410 out, 0.0123 USD · …`.

    Members are the lead and all members that the team ever had; turns are the lead's model calls.
    """
    members = max(len(result.members), 1)
    parts = [
        duration(result.duration_ms / 1000),
        f"{members} {_plural('member', members)}",
        f"{result.turns} {_plural('turn', result.turns)}",
        str(result.usage),
    ]
    fullest = max(result.members, key=lambda member: member.context, default=None)
    if fullest is not None and fullest.context:
        parts.append(_context(fullest))
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """Format a time span for people: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def _context(member: MemberResult) -> str:
    name = display_name(member.name)
    return f"fullest context {member.context:,} tokens ({name})"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
