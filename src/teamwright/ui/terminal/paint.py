"""Colours, where they are wanted: a terminal that has them, and nobody who asked for none.

`Paint(False)` gives every text back as it is. Knows escape sequences; knows no event.
"""

from __future__ import annotations

from collections.abc import Mapping

from teamwright.protocol.values import dataclass

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
}
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
"""The style of a line of a unified diff, by its first character."""

PLAIN_TERMINALS = frozenset({"", "dumb", "unknown"})
"""Values of TERM that promise neither colours nor a cursor that can be moved."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Puts texts into colours, or leaves them alone."""

    on: bool = False

    def __call__(self, style: str, text: str) -> str:
        """The text in a colour or style of this module; an unknown one changes nothing."""
        code = _CODES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def make_paint(env: Mapping[str, str], *, is_tty: bool) -> Paint:
    """Colours only on a terminal that can show them; `NO_COLOR` set to anything means none (no-color.org)."""
    return Paint(is_tty and not env.get("NO_COLOR") and env.get("TERM", "") not in PLAIN_TERMINALS)
