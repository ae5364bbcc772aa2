"""The lead's words as they come: whole lines at once, the remainder when the answer is over.

Output goes above the line that is being typed, so half a line cannot be shown and completed later. Pure.
"""

from __future__ import annotations

from teamwright.protocol.values import dataclass


@dataclass(slots=True)
class LineStream:
    """Takes pieces of text and gives whole lines."""

    _rest: str = ""

    def add(self, text: str) -> list[str]:
        """The lines that this piece completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        return lines

    def end(self) -> list[str]:
        """What is left, as a last line; nothing when there is nothing."""
        rest, self._rest = self._rest, ""
        return [rest] if rest else []
