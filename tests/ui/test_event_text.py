"""The progress of a run and the lines of a terminal say the same about an event."""

import pytest

from teamwright.protocol.events import LimitReached, ModeChanged, ModelChanged, SandboxRefused, TaskChanged, TaskInfo
from teamwright.ui.event_text import TASK_MARKS, event_line
from teamwright.ui.terminal.events import EventFormatter

TASK = TaskInfo(id="3", subject="Cut the cake", status="pending", owner="ada")
TOLD = [
    LimitReached(member="ada", limit="money", detail="3 USD"),
    ModeChanged(member="ada", mode="plan"),
    ModelChanged(member="ada", model="opus"),
    SandboxRefused(member="ada", call="c1", policy="work", refused=("write /etc",), allow="Allow it in the settings."),
    *(TaskChanged(member="ada", change=change, task=TASK) for change in TASK_MARKS),
]


@pytest.mark.parametrize("event", TOLD, ids=lambda event: getattr(event, "change", type(event).__name__))
def test_an_event_has_the_same_text_on_stderr_and_at_a_terminal(event):
    [line] = EventFormatter().lines(event)
    assert event_line(event).split()[:6] == line.split()[:6]
