"""A tool call as lines of a terminal: what it did with its number, its result on one line, reasons and diffs.

    lead       Bash pytest -q [c12]
               ✓ 12 passed in 3.42s · 41 more lines · 4.1 s

Depends on events and colours. The whole output is in the log (`/log c12`), which this module does not read.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from textwrap import wrap
from typing import cast

from teamwright.protocol.events import ToolCalled
from teamwright.ui.display_text import cell_width, clean, cut, one_line
from teamwright.ui.terminal.diff_colors import hunk_lines, paint_lines
from teamwright.ui.terminal.text_styles import Paint

MAX_DIFF_LINES = 20
"""The number of diff lines that are shown; the rest is counted."""

MAX_REASON_LINES = 3
"""The number of lines of a reason that are shown below a refused call."""

SHOWN_SECONDS = 1.0
"""The time of a call from which the line of its result shows the time."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_WITH_TEXT = re.compile(r"\w")
_FRAME = " \t=*#~_│─━|-"
"""Characters that programs draw around the words of a last line."""


def output_lines(text: str) -> list[str]:
    """Return the lines of output that are not blank: colours removed, a line that was overwritten as it was last."""
    lines = (_COLOR.sub("", line).rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return [clean(line) for line in lines if line.strip()]


def last_words(text: str) -> str:
    """Return the last line of output that has a letter or a digit, without the frame around it; else an empty text."""
    found = next((line for line in reversed(output_lines(text)) if _WITH_TEXT.search(line)), "")
    return one_line(found.strip(_FRAME))


def call_line(event: ToolCalled, room: int) -> str:
    """Return what the call did, its result or the kind of its failure, and its number, in `room` columns."""
    number = f" [{event.call}]" if event.call else ""
    return _call_text(event, room - cell_width(number)) + number


def _call_text(event: ToolCalled, room: int) -> str:
    summary = one_line(event.summary)
    head = event.tool if summary == event.tool else f"{event.tool} {summary}"
    if event.outcome == "done":
        end = _diff_counts(event) or _brief(event)
        return cut(head, max(room - cell_width(end), room // 2)) + cut(end, max(room // 2, room - cell_width(head)))
    word = "refused" if event.outcome == "denied" else event.outcome
    why = failure_reason(event)
    end = f" — {word}: {why}"
    if not why or cell_width(head + end) > room < 2 * cell_width(end):
        end = f" — {word}"
    # The reason of a failure is more important than the end of a long command.
    return cut(head, room - cell_width(end)) + end


def _diff_counts(event: ToolCalled) -> str:
    added, removed = event.facts.get("added"), event.facts.get("removed")
    return f" (+{added} -{removed})" if isinstance(added, int) and isinstance(removed, int) else ""


def _brief(event: ToolCalled) -> str:
    """Return the tool's own line about its result. The result of a command has a separate line."""
    brief = one_line(str(event.facts.get("brief", "")))
    return f" · {brief}" if brief and not _is_command(event) else ""


def result_line(event: ToolCalled, room: int) -> str:
    """Return the result of a command: its last words, the number of lines that are not shown, and a long time.

    An empty text for a call that printed nothing in less than a second.
    """
    if not _is_command(event):
        return ""
    text, hidden = _last_words_of(event), hidden_lines(event)
    more = [f"{hidden:,} more line{'' if hidden == 1 else 's'}"] if hidden else []
    took = [f"{event.seconds:.1f} s"] if event.seconds >= SHOWN_SECONDS else []
    end = " · ".join([*more, *took])
    if not text and not end:
        return ""
    mark = "✓ " if event.outcome == "done" else "✗ "
    gap = " · " if text and end else ""
    return f"{mark}{cut(text, room - cell_width(mark + gap + end))}{gap}{end}"


def _is_command(event: ToolCalled) -> bool:
    """Return True for a command that has run: its facts are about its output."""
    return "end" in event.facts


def hidden_lines(event: ToolCalled) -> int:
    """Return the number of output lines of a command that its result does not show."""
    lines = event.facts.get("lines")
    return max(0, lines - bool(_last_words_of(event))) if isinstance(lines, int) else 0


def _last_words_of(event: ToolCalled) -> str:
    return last_words(str(event.facts.get("end", "")))


def failure_reason(event: ToolCalled) -> str:
    """Return the reason of a failed call, without what its line shows already."""
    if _is_command(event):
        return one_line(str(event.facts.get("brief", "")))
    return one_line(_extract_message(event.output).split("\n", 1)[0]).removeprefix("This call was not allowed: ")


def _extract_message(output: str) -> str:
    """Return the `message` of an answer that is a JSON object; any other answer is returned unchanged."""
    if output.startswith("{"):
        with suppress(ValueError, RecursionError):
            message = cast("dict[str, object]", json.loads(output)).get("message")
            return message if isinstance(message, str) else output
    return output


def reason_lines(event: ToolCalled, room: int) -> list[str]:
    """Return the reason of a failure below the call, when both do not fit on one line."""
    why = failure_reason(event)
    number = f" [{event.call}]" if event.call else ""
    if event.outcome == "done" or not why or call_line(event, room).endswith(why + number):
        return []
    lines = wrap(why, room)
    if len(lines) > MAX_REASON_LINES:
        lines = [*lines[: MAX_REASON_LINES - 1], cut(f"{lines[MAX_REASON_LINES - 1]}…", room)]
    return lines


def diff_lines(event: ToolCalled, paint: Paint, room: int, rest_command: str) -> list[str]:
    """Return the diff of a changed file; `rest_command` shows what is left out."""
    diff = event.facts.get("diff")
    if event.outcome != "done" or not isinstance(diff, str) or not diff:
        return []
    body = diff.removesuffix("\n").split("\n")[2:]  # without its two heads: the line of the call names the file
    lines = list(paint_lines(hunk_lines(cut(clean(line), room) for line in body[:MAX_DIFF_LINES]), paint))
    if len(body) > MAX_DIFF_LINES:
        more = f": {rest_command} {event.call}" if rest_command else ""
        lines.append(paint("dim", f"… {len(body) - MAX_DIFF_LINES} more lines{more}"))
    return lines
