"""Output of commands as lines of a terminal: the last lines of an agent's command, all lines of the person's own.

Depends on events; every line is cleaned before it is shown.
"""

from __future__ import annotations

from teamwright.protocol.events import ToolCalled
from teamwright.ui.display_text import clean, cut

LAST_LINES = 3
"""The number of output lines of an agent's command that are shown."""

SHELL = "shell"
"""The level of notices with the output of the person's own command, and the label of their lines."""


def last_lines(event: ToolCalled, room: int) -> list[str]:
    """Return the last output lines of an agent's command, cut to `room` columns, and the number of earlier lines."""
    if event.tool != "Bash" or event.outcome not in {"done", "failed"}:
        return []
    text = str(event.facts.get("end") or event.output)
    lines = [line for line in clean(text).split("\n") if line.strip()]
    if event.outcome == "failed":
        lines = lines[1:]  # the first line is the reason shown with the call
    before = len(lines) - LAST_LINES
    shown = [cut(line, room) for line in lines[-LAST_LINES:]]
    more = "more lines" if "end" in event.facts else f"{before} more line{'' if before == 1 else 's'}"
    return [*([f"… {more}: /log {event.call}"] if before > 0 else []), *shown]


def shell_lines(text: str) -> list[str]:
    """Return the person's own command and its whole output as lines."""
    command, _, output = clean(text).partition("\n")
    return [f"{SHELL:<10} {command}", *(f"  {line}" for line in output.rstrip("\n").split("\n") if output.strip())]
