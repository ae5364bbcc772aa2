"""Which member the keys stand on: down into the panel, up and out of it again. A name, so that it cannot be another's.

    line ──down──▶ first row ⇄ next row … last row (stays)
      ▲──up from the first, Esc, typing, the member is gone──┘

Pure; knows no key.
"""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.protocol.values import dataclass


@dataclass(slots=True)
class Selection:
    """`name` is empty while the keys belong to the line."""

    name: str = ""

    def move(self, by: int, names: Sequence[str]) -> bool:
        """Go on by `by` rows (1 down, -1 up) among `names`; whether the key was ours."""
        self.settle(names)
        if not self.name:
            self.name = names[0] if names and by > 0 else ""
            return bool(self.name)
        at = names.index(self.name) + by
        self.name = "" if at < 0 else names[min(at, len(names) - 1)]
        return True

    def settle(self, names: Sequence[str]) -> None:
        """Leave a member that is there no more."""
        if self.name not in names:
            self.name = ""

    def leave(self) -> bool:
        """Give the keys back to the line; whether anybody was selected."""
        was, self.name = self.name, ""
        return bool(was)
