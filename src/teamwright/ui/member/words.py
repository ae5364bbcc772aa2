"""What a person reads in a member's pane beside what events say: who it is, and that its lead is gone. Pure."""

from __future__ import annotations

from teamwright.ui.terminal.text import clean, cut

NARROWEST = 20


def header(name: str, team: str, model: str, mode: str, held: int, width: int) -> list[str]:
    """Who this is, and how to write to it. `held`: messages of an earlier life of its process."""
    who = clean(name)
    lines = [
        f"{who} · team {clean(team)} · {clean(model)} · {clean(mode)}",
        f"  what you type goes to {who} as mail from you · /help",
        "  Esc or Ctrl-C ends its turn · /stop ends it · closing the terminal ends it too",
    ]
    if held:
        lines.append(f"  it continues; its conversation has {held} messages")
    return [cut(line, max(width - 1, NARROWEST)) for line in lines]


def lead_lines(name: str, there: bool, grace_s: float | None) -> list[str]:
    """That its lead is gone and how long it stays, or that it is back."""
    if there:
        return [f"the lead of {name} is back"]
    stays = "until it is back" if grace_s is None else f"{grace_s:.0f} s for it to come back, and keeps its place"
    return [f"the lead of {name} is gone: {name} stays {stays}"]
