"""The last line of the screen: what a person wants to know of the session without asking.

A table says in which order its parts go when the window is too narrow for all of them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from teamwright.app.looking.now import SessionNow
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.panel.ages import count
from teamwright.ui.terminal.text import cells, cut, model_words

BETWEEN = " · "


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that the line says; of those that do not fit the one of the highest `gives_way` goes first."""

    gives_way: int
    words: Callable[[SessionNow], str]


def _context(now: SessionNow) -> str:
    if not now.context or not now.window:
        return ""
    return f"context {100 * now.context // now.window}% of {count(now.window).replace('.0k', 'k')}"


def _money(now: SessionNow) -> str:
    used = "$ unknown" if now.usd is None else f"${now.usd:.2f}"
    return used if now.usd_cap is None else f"{used} of ${now.usd_cap:.2f}"


def _requests(now: SessionNow) -> str:
    return f"{now.requests} request{'s wait' if now.requests > 1 else ' waits'}" if now.requests else ""


PARTS: tuple[Part, ...] = (
    Part(-1, lambda now: "its lead is gone" if now.alone else ""),
    Part(6, lambda now: model_words(now.model)),
    Part(4, lambda now: now.mode),
    Part(2, _context),
    Part(3, _money),
    Part(7, lambda now: f"{count(now.tokens)} tokens" if now.tokens else ""),
    Part(1, lambda now: f"{now.done}/{now.tasks} tasks" if now.tasks else ""),
    Part(0, _requests),
)
"""In the order in which they stand."""


def status_line(now: SessionNow, width: int) -> str:
    """As much of it as fits `width` columns."""
    said = [(part.gives_way, words) for part in PARTS if (words := part.words(now))]
    while len(said) > 1 and cells(_joined(said)) > width:
        said.remove(max(said))
    return cut(_joined(said), width)


def _joined(said: list[tuple[int, str]]) -> str:
    return BETWEEN.join(words for _, words in said)
