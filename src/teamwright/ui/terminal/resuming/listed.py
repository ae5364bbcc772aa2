"""A list of sessions as rows to pick from: id, age, team, members, and the words that began each.

Pure but for the clock. Knows sessions as they are listed; asks nobody.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from teamwright.app.ended.listing import Listed
from teamwright.ui.terminal.text import cells, cut, one_line, padded

HEAD = ("", "id", "last", "team", "members", "prompt")
_TEAM_MOST = 20
_PROMPT_LEAST = 12
_PROMPT_MOST = 400


def row_lines(rows: Sequence[Listed], width: int) -> list[str]:
    """The head and a line a row, each shorter than `width` columns; columns that hold nothing are left out."""
    table = [HEAD, *(_cells(number, row) for number, row in enumerate(rows, 1))]
    kept = [at for at in range(len(HEAD)) if at in (0, len(HEAD) - 1) or any(line[at] for line in table[1:])]
    widths = {at: max(cells(line[at]) for line in table) for at in kept[:-1]}
    most = max(width, 1) - 1
    for at in (4, 2, 3):  # in a narrow window the words are worth more than these
        if at in widths and most - sum(widths.values()) - 2 * len(widths) < _PROMPT_LEAST:
            del widths[at]
    lines = ["  ".join([*(padded(line[at], widths[at]) for at in widths), line[-1]]).rstrip() for line in table]
    return [cut(line, most) for line in lines]


def _cells(number: int, row: Listed) -> tuple[str, ...]:
    """What stands in the columns of a session."""
    view = row.view
    last = f"runs, pid {view.pid}" if view.pid else _age(time.time() - view.changed_at)
    prompt = one_line(view.prompt[:_PROMPT_MOST]) or "(no prompt)"
    team = cut(one_line(row.team), _TEAM_MOST)
    return str(number), view.id[:8], last, team, str(row.members) if row.members else "", prompt


def _age(seconds: float) -> str:
    """How long ago, in the one unit that says it."""
    for unit, size, most in (("s", 1, 60), ("min", 60, 60), ("h", 3_600, 48)):
        if seconds < size * most:
            return f"{max(int(seconds / size), 0)} {unit} ago"
    return f"{int(seconds / 86_400)} days ago"
