"""Colours and styles of text, for terminals that support them and without `NO_COLOR`.

`Paint(False)` returns every text unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "purple": "35",
    "cyan": "36",
    "orange": "38;5;208",
    "pink": "38;5;205",
    "removed": "31",
    "added": "32",
    "removed words": "7;31",
    "added words": "7;32",
}

PLAIN_TERMINALS = frozenset({"", "dumb", "unknown"})
"""Values of TERM for terminals without colours and without a movable cursor."""


class Paint(Struct, frozen=True):
    """A function that adds colours to texts, or leaves them unchanged."""

    on: bool = False

    def __call__(self, style: str, text: str) -> str:
        """Return the text in a colour or style of this module; an unknown style changes nothing."""
        code = _CODES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def make_paint(env: Mapping[str, str], *, is_tty: bool) -> Paint:
    """Return a Paint with colours on a terminal that supports them; any value of `NO_COLOR` disables them
    (no-color.org).
    """
    return Paint(is_tty and not env.get("NO_COLOR") and not is_plain_terminal(env))


def is_plain_terminal(env: Mapping[str, str]) -> bool:
    """Return True for a terminal that gets text alone, without colours and without a movable cursor."""
    return env.get("TERM", "") in PLAIN_TERMINALS


def terminal_environment(env: Mapping[str, str], *, plain: bool) -> Mapping[str, str]:
    """Return the environment that describes the terminal: with `plain` that of a terminal without a movable cursor."""
    return {**env, "TERM": "dumb"} if plain else env
