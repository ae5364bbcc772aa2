"""The choice of what moves to the background: the words of `/bg`, at the lead's terminal and at a member's."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.ui.display_text import one_line


def choose_foreground(waiting: Sequence[str], name: str) -> tuple[str, list[str]]:
    """Return the name of what a person means, or an empty name with the lines that say what there is to choose."""
    if name.isdecimal() and not 0 < int(name) <= len(waiting):
        return "", [f"  there is no number {name}: /bg lists what is waited for"]
    if name:
        return waiting[int(name) - 1].split()[0] if name.isdecimal() else name, []
    if len(waiting) > 1:
        return "", ["  /bg NUMBER or /bg NAME moves one of these:", *waiting_lines(waiting)]
    return (waiting[0].split()[0], []) if waiting else ("", moved_lines([]))


def waiting_lines(waiting: Sequence[str]) -> list[str]:
    """Return a numbered line for each."""
    return [f"  {number}  {one_line(what)}" for number, what in enumerate(waiting, 1)]


def moved_lines(moved: Sequence[str]) -> list[str]:
    """Return the lines that name what moved to the background."""
    if not moved:
        return ["  nothing runs in the foreground that could continue in the background"]
    return [f"  in the background: {one_line(what)}" for what in moved]
