"""The panel of the demo and its state: members, tasks and mail, from events.

It has 80 columns and is readable without colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from teamwright.protocol.events import MemberChanged, MessageSent, TaskChanged, TaskInfo, TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.session.run_counts import RunCounts
from teamwright.ui.display_text import cell_width, cut, one_line, pad
from teamwright.ui.event_text import display_name

WIDTH = 80

_MARKS = {"pending": "·", "in_progress": "▸", "completed": "✓"}
_RESTING_STATES = frozenset({"idle", "completed", "failed", "crashed", "killed"})
_COLUMNS = (("members", 33), ("tasks", 27), ("mail", 11))
"""The titles of the columns, and the width of their texts."""


def fit(text: str, width: int) -> str:
    """Return the text on one line, cut or padded to exactly `width` columns."""
    return pad(cut(one_line(text), width), width)


def number_list(ids: Sequence[str]) -> str:
    """Return task numbers as a text: `#2 and #3`."""
    shown_ids = [f"#{one}" for one in ids]
    return " and ".join([", ".join(shown_ids[:-1]), shown_ids[-1]] if len(shown_ids) > 1 else shown_ids)


@dataclass(slots=True)
class TeamPanel:
    """The state of a run as far as its events show it."""

    members: dict[str, str] = field(default_factory=lambda: {LEAD: "working"})
    tasks: dict[str, TaskInfo] = field(default_factory=dict[str, TaskInfo])
    totals: RunCounts = field(default_factory=RunCounts)

    def note(self, event: TeamEvent) -> None:
        """Update the state with an event."""
        self.totals.count(event)
        match event:
            case MemberChanged():
                self.members[event.member] = event.state
            case TaskChanged() if event.task.status == "deleted":
                self.tasks.pop(event.task.id, None)
            case TaskChanged():
                self.tasks[event.task.id] = event.task
            case _:
                pass

    def open_blockers(self, task: TaskInfo) -> list[str]:
        """Return the open tasks that block this one."""
        return [one for one in task.blocked_by if one in self.tasks and self.tasks[one].status != "completed"]

    def tasks_freed_by(self, number: str) -> list[str]:
        """Return the tasks that this one blocked and that are not blocked any more."""
        waited = [task for task in self.tasks.values() if number in task.blocked_by and task.status == "pending"]
        return [task.id for task in waited if not self.open_blockers(task)]

    def lines(self) -> list[str]:
        """Return the lines of the panel with its top and bottom rule."""
        marked = [f"{_MARKS[task.status]}{task.id}" for task in self.tasks.values() if task.status in _MARKS]
        tasks = [" ".join(marked[at : at + 7]) for at in range(0, len(marked), 7)]
        mail = [f"{self.totals.sent} sent", f"{self.totals.seen} seen", f"{len(self.totals.waiting)} waiting"]
        rows = [[self._member(name) for name in self.members], tasks, mail]
        made = [_rule("┌┬┐", [f" {title} " for title, _ in _COLUMNS])]
        for at in range(max(map(len, rows))):
            texts = [row[at] if at < len(row) else "" for row in rows]
            parts = [" " + pad(cut(text, width), width) for text, (_, width) in zip(texts, _COLUMNS, strict=True)]
            made.append(" │" + "│".join(parts) + "│")
        return [*made, _rule("└┴┘", ["", "", ""])]

    def _member(self, name: str) -> str:
        state = self.members[name]
        own = [f"#{t.id}" for t in self.tasks.values() if t.owner == name and t.status == "in_progress"]
        return f"{'○' if state in _RESTING_STATES else '●'} {fit(display_name(name), 10)} {state:<9} {' '.join(own)}"


def _rule(corners: str, titles: Sequence[str]) -> str:
    parts = [title + "─" * (width + 1 - cell_width(title)) for title, (_, width) in zip(titles, _COLUMNS, strict=True)]
    return " " + corners[0] + corners[1].join(parts) + corners[2]


def is_contentless(event: MessageSent) -> bool:
    """Return True for an idle notification without content, which does not count as a message."""
    return event.wire == "idle_notification" and event.summary == "idle"
