"""Plain lines of a member's process, where nobody sits at it: in a pane, or in a file.

Knows the words of events. Nobody may be there to read, and that ends no member.
"""

from __future__ import annotations

import contextlib
import sys

from teamwright.protocol.events import TeamEvent, TurnEnded
from teamwright.ui.headless.progress import line_of
from teamwright.ui.printable import clean


def show(event: TeamEvent) -> None:
    """What happened, if there is a line for it; of a turn that ended its last words."""
    line = event.text if isinstance(event, TurnEnded) else line_of(event)
    if line:
        say(line)


def say(line: str) -> None:
    """A line."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(clean(line) + "\n")
        sys.stdout.flush()
